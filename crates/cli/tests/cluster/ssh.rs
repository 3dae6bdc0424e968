//! Hosts with ssh daemons, which the bench's own root may enter.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::super::common::{Bench, namespaces, tool, until};
use super::{Cluster, address, name};

impl Cluster {
    /// Starts a daemon on each node. `ssh n1` enters the first then.
    pub fn start_ssh(&mut self, bench: &Bench) {
        let root = self.root().display().to_string();
        let key = |name: &str| {
            let path = format!("{root}/{name}");
            tool(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", &path]);
            path
        };
        let (host_key, user_key) = (key("host-key"), key("user-key"));
        let environment = ["LATLAB_STATE_DIR", "LATLAB_RUN_DIR", "LATLAB_AGENT"].map(|name| {
            let value = match name {
                "LATLAB_STATE_DIR" => bench.root().join("state"),
                "LATLAB_RUN_DIR" => bench.run_dir(),
                _ => namespaces::agent(),
            };
            format!("{name}={}", value.display())
        });
        let daemon = format!(
            "HostKey {host_key}\nAuthorizedKeysFile {user_key}.pub\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n\
             SetEnv {}\nPidFile none\n",
            environment.join(" ")
        );
        fs::write(self.root().join("sshd.conf"), daemon).unwrap();
        let mut client = String::new();
        for number in 1..=self.size {
            client += &format!("Host {}\n  HostName {}\n", name(number), address(number));
        }
        client += &format!(
            "Host *\n  User root\n  IdentityFile {user_key}\n  StrictHostKeyChecking no\n  UserKnownHostsFile {root}/known\n"
        );
        let directory = self.root().join("ssh");
        fs::create_dir(&directory).unwrap();
        let client_file = directory.join("hosts.conf");
        fs::write(&client_file, client).unwrap();
        fs::set_permissions(&client_file, fs::Permissions::from_mode(0o644)).unwrap();
        // A mount of this namespace alone. A guest's root can hold a directory from elsewhere, but no file.
        tool(&[
            "mount",
            "--bind",
            directory.to_str().unwrap(),
            "/etc/ssh/ssh_config.d",
        ]);
        for number in 1..=self.size {
            self.boot_sshd(bench, number);
        }
    }

    /// The daemon and its children see no cgroups, because all nodes would share one tree.
    pub fn boot_sshd(&mut self, bench: &Bench, number: usize) {
        let configuration = self.root().join("sshd.conf").display().to_string();
        let without_cgroups =
            "umount -l /sys/fs/cgroup/* /sys/fs/cgroup 2>/dev/null || true; \"$@\"";
        let daemon = ["/usr/sbin/sshd", "-D", "-e", "-f", &configuration];
        let words = [&["sh", "-ec", without_cgroups, "sh"][..], &daemon].concat();
        self.boot(bench, number, &words);
        until("the ssh daemon answers", || {
            let said = Command::new("ssh").args([&name(number), "true"]).output();
            said.unwrap().status.success()
        });
    }
}
