//! Certificates for tests, made by openssl.

// Each test program uses a part of it.
#![allow(dead_code)]

use std::path::PathBuf;
use std::process::Command;

use latlab_overlay::tls::Credentials;

/// A directory with an authority, and a certificate of it for each end's address.
pub struct Authority(PathBuf);

impl Authority {
    pub fn new(name: &str) -> Authority {
        let path = std::env::temp_dir().join(format!("latlab-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let authority = Authority(path);
        authority.run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem");
        for host in ["192.0.2.1", "192.0.2.2"] {
            authority.run(&format!("openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={host} -keyout {host}.key -out {host}.csr"));
            authority.run(&format!("printf 'subjectAltName=IP:{host}' > {host}.ext; openssl x509 -req -in {host}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile {host}.ext -out {host}.pem"));
        }
        authority
    }

    fn run(&self, line: &str) {
        let done = Command::new("sh")
            .args(["-c", line])
            .current_dir(&self.0)
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    }

    /// The path of one of the files: HOST.pem, HOST.key or ca.pem.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// One end's credentials, which trust `other`.
    pub fn credentials(&self, host: &str, other: &Authority) -> Credentials {
        Credentials::read(
            &self.file(&format!("{host}.pem")),
            &self.file(&format!("{host}.key")),
            &other.file("ca.pem"),
        )
        .unwrap()
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
