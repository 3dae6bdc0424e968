//! `hosts.yaml`: machines that latlab switches by their management controllers (BMC).

use std::path::{Path, PathBuf};

use super::host::read_ssh;
use super::name::check_name;
use super::reader::Object;
use super::yaml::Yaml;
use crate::diagnostic::{Diagnostics, Spanned, hint_one_of, shown};

/// The document.
#[derive(Debug, Clone, PartialEq)]
pub struct ManagedHosts {
    pub hosts: Vec<ManagedHost>,
}

/// A machine with a controller.
#[derive(Debug, Clone, PartialEq)]
pub struct ManagedHost {
    pub name: Spanned<String>,
    /// `ssh:` the destination of ssh(1), when its system runs.
    pub ssh: Option<Spanned<String>>,
    /// `live:` the directory of the live system that the host gets when it boots from the network.
    pub live: Option<PathBuf>,
    pub bmc: Bmc,
}

/// A baseboard management controller, and how it is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Bmc {
    /// An IP address or a name; of Redfish also a URL.
    pub address: Spanned<String>,
    pub user: Spanned<String>,
    pub password: Secret,
    pub protocol: BmcProtocol,
}

#[derive(Debug, Clone, PartialEq)]
pub enum BmcProtocol {
    /// IPMI 2.0 over UDP (RMCP+), by ipmitool(1).
    Ipmi {
        port: u16,
        /// Cipher suite (IPMI 2.0, table 22-20); none: the strongest that both sides have.
        cipher: Option<u16>,
    },
    /// DMTF Redfish (DSP0266) over HTTPS.
    Redfish {
        /// Identifier below `/redfish/v1/Systems`; none: the only one there.
        system: Option<String>,
        /// Certificate of the authority that signed the controller's (PEM); none: the system's authorities.
        authority: Option<PathBuf>,
    },
}

/// Where a password is read from. A document holds none itself: it is shared, and kept in version control.
#[derive(Debug, Clone, PartialEq)]
pub enum Secret {
    /// An environment variable.
    Variable(String),
    /// The first line of a file.
    File(PathBuf),
}

const PROTOCOLS: &[&str] = &["ipmi", "redfish"];
/// UDP port of RMCP (IPMI 2.0, 13.1.2).
const RMCP_PORT: u16 = 623;
/// Highest number of a cipher suite that the standard gives.
const MAX_CIPHER: u16 = 17;

impl ManagedHosts {
    /// Reads `hosts.yaml` from its text. Errors: all mistakes.
    pub fn parse(text: &str) -> Result<ManagedHosts, Diagnostics> {
        ManagedHosts::read(&Yaml::parse(text)?)
    }

    fn read(yaml: &Yaml) -> Result<ManagedHosts, Diagnostics> {
        let mut errors = Diagnostics::default();
        let mut top = Object::new(yaml, "the file of hosts", &mut errors);
        let hosts = top.require("hosts", &mut errors);
        top.finish(&mut errors);
        let hosts = hosts.map_or_else(Vec::new, |yaml| read_hosts(yaml, &mut errors));
        errors.into_result(ManagedHosts { hosts })
    }

    /// The same hosts, with relative paths taken from the directory of their file.
    #[must_use]
    pub fn relative_to(mut self, directory: &Path) -> ManagedHosts {
        for host in &mut self.hosts {
            let authority = match &mut host.bmc.protocol {
                BmcProtocol::Redfish { authority, .. } => authority.as_mut(),
                BmcProtocol::Ipmi { .. } => None,
            };
            let password = match &mut host.bmc.password {
                Secret::File(path) => Some(path),
                Secret::Variable(_) => None,
            };
            for path in [host.live.as_mut(), authority, password]
                .into_iter()
                .flatten()
            {
                *path = directory.join(&*path);
            }
        }
        self
    }

    pub fn host(&self, name: &str) -> Option<&ManagedHost> {
        self.hosts.iter().find(|host| *host.name == name)
    }
}

fn read_hosts(yaml: &Yaml, errors: &mut Diagnostics) -> Vec<ManagedHost> {
    let all = Object::new(yaml, "`hosts`", errors);
    let read = all.entries().filter_map(|(name, yaml)| {
        let name = Spanned::new(name.value.to_string(), name.at);
        check_name("host", &name, errors);
        let mut o = Object::new(yaml, format!("host `{}`", shown(&name)), errors);
        let ssh = read_ssh(&mut o, errors);
        let live = o.value::<String>("live", errors).map(PathBuf::from);
        let bmc = o.require("bmc", errors);
        o.finish(errors);
        let bmc = bmc.and_then(|yaml| read_bmc(yaml, &name, errors))?;
        Some(ManagedHost {
            name,
            ssh,
            live,
            bmc,
        })
    });
    read.collect()
}

fn read_bmc(yaml: &Yaml, host: &str, errors: &mut Diagnostics) -> Option<Bmc> {
    let mut o = Object::new(yaml, format!("`bmc` of host `{}`", shown(host)), errors);
    let kind = o.need::<String>("type", errors);
    let address = o.need::<String>("address", errors);
    let user = o.need::<String>("user", errors);
    let password = o.require("password", errors);
    let password = password.and_then(|yaml| read_secret(yaml, host, errors));
    let protocol = match kind.as_ref().map(|kind| kind.as_str()) {
        Some("ipmi") => Some(BmcProtocol::Ipmi {
            port: o.value("port", errors).unwrap_or(RMCP_PORT),
            cipher: read_cipher(&mut o, errors),
        }),
        Some("redfish") => Some(BmcProtocol::Redfish {
            system: o.value("system", errors),
            authority: o.value::<String>("authority", errors).map(PathBuf::from),
        }),
        Some(other) => {
            let message = format!("`{}` is no type of controller", shown(other));
            let at = kind.as_ref().map_or(o.at, |kind| kind.at);
            errors.add(at, message, hint_one_of(other, PROTOCOLS));
            None
        }
        None => None,
    };
    // Keys of either type are known where the type is not.
    if protocol.is_none() {
        for key in ["port", "cipher", "system", "authority"] {
            o.take(key);
        }
    }
    o.finish(errors);
    for text in [&address, &user].into_iter().flatten() {
        check_word(text, errors);
    }
    Some(Bmc {
        address: address?,
        user: user?,
        password: password?,
        protocol: protocol?,
    })
}

/// A word of a command's argument, which must not look like an option.
fn check_word(text: &Spanned<String>, errors: &mut Diagnostics) {
    if text.is_empty() || text.starts_with('-') || text.contains(char::is_whitespace) {
        let message = format!("`{}` is no address and no user", shown(text));
        errors.add(text.at, message, "a word without blanks");
    }
}

fn read_cipher(o: &mut Object<'_>, errors: &mut Diagnostics) -> Option<u16> {
    let cipher = o.get::<u16>("cipher", errors)?;
    if cipher.value > MAX_CIPHER {
        let message = format!("there is no cipher suite {} of IPMI", cipher.value);
        errors.add(
            cipher.at,
            message,
            "17 or 3 are usual; left out, the strongest",
        );
    }
    Some(cipher.value)
}

fn read_secret(yaml: &Yaml, host: &str, errors: &mut Diagnostics) -> Option<Secret> {
    let example = "for example `password: {env: DUT_PASSWORD}` or `password: {file: dut.password}`";
    if yaml.scalar().is_some() {
        let message = format!(
            "`password` of host `{}` stands in the file itself",
            shown(host)
        );
        errors.add(yaml.at, message, example);
        return None;
    }
    let what = format!("`password` of host `{}`", shown(host));
    let mut o = Object::new(yaml, what.clone(), errors);
    let variable = o.value("env", errors);
    let file = o.value::<String>("file", errors);
    let is_mapping = o.is_mapping();
    o.finish(errors);
    match (variable, file) {
        (Some(name), None) => Some(Secret::Variable(name)),
        (None, Some(path)) => Some(Secret::File(path.into())),
        _ if !is_mapping => None,
        _ => {
            errors.add(
                yaml.at,
                format!("{what} needs one of `env` and `file`"),
                example,
            );
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "hosts:
  dut:
    ssh: root@dut
    live: /srv/tftp
    bmc: {type: ipmi, address: 192.0.2.7, user: admin, password: {env: DUT}, cipher: 3}
  gen:
    bmc: {type: redfish, address: 192.0.2.8, user: admin, password: {file: gen.password}}
";

    fn mistakes(text: &str) -> String {
        let errors = ManagedHosts::parse(text).unwrap_err();
        errors.render("hosts.yaml")
    }

    #[test]
    fn relative_paths_are_of_the_files_directory() {
        let text = "hosts:\n  a:\n    live: system\n    bmc: {type: redfish, address: x, user: u, password: {file: /etc/pw}, authority: ca.pem}\n";
        let hosts = ManagedHosts::parse(text)
            .unwrap()
            .relative_to(Path::new("/lab"));
        let host = hosts.host("a").unwrap();
        assert_eq!(host.live.as_deref(), Some(Path::new("/lab/system")));
        assert_eq!(host.bmc.password, Secret::File("/etc/pw".into()));
        let authority = Some(PathBuf::from("/lab/ca.pem"));
        let expected = BmcProtocol::Redfish {
            system: None,
            authority,
        };
        assert_eq!(host.bmc.protocol, expected);
    }

    #[test]
    fn hosts_are_read_with_their_controllers() {
        let all = ManagedHosts::parse(GOOD).unwrap();
        let dut = all.host("dut").unwrap();
        assert_eq!(dut.live, Some(PathBuf::from("/srv/tftp")));
        let dut = &dut.bmc;
        assert_eq!(dut.password, Secret::Variable("DUT".into()));
        let ipmi = BmcProtocol::Ipmi {
            port: 623,
            cipher: Some(3),
        };
        assert_eq!(dut.protocol, ipmi);
        let redfish = &all.host("gen").unwrap().bmc.protocol;
        assert!(matches!(redfish, BmcProtocol::Redfish { system: None, .. }));
        assert_eq!(all.host("other"), None);
    }

    #[test]
    fn a_password_in_the_file_is_refused() {
        let said = mistakes(&GOOD.replace("{env: DUT}", "secret"));
        assert!(said.contains("stands in the file itself"), "{said}");
        assert!(!said.contains("secret: "), "{said}");
    }

    #[test]
    fn every_mistake_is_told_with_its_place() {
        let text = "hosts:
  dut:
    bmc: {type: ipm, address: -x, user: 'a b', password: {env: A, file: B}}
  gen:
    bmc: {type: ipmi, address: a, user: b, password: {env: C}, cipher: 99, system: 1}
  third: {ssh: -oProxyCommand=x}
";
        let said = mistakes(text);
        for part in [
            "`ipm` is no type of controller",
            "`-x` is no address and no user",
            "`a b` is no address and no user",
            "needs one of `env` and `file`",
            "there is no cipher suite 99",
            "`system`",
            "is no destination of ssh",
            "`bmc`",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
