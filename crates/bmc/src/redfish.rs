//! Redfish (DMTF DSP0266): JSON over HTTPS.

use std::fmt::Display;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use ureq::tls::{PemItem, RootCerts, TlsConfig};
use ureq::{Agent, Body};

use crate::controller::{BootDevice, Controller, Power, Sensor, Switch};
use crate::error::Error;

/// Time of a request in all.
const TIMEOUT: Duration = Duration::from_secs(9);
/// Limit of an answer.
const MAX_ANSWER_BYTES: u64 = 4 << 20;
const SYSTEMS: &str = "/redfish/v1/Systems";
const CHASSIS: &str = "/redfish/v1/Chassis";

pub(crate) struct Redfish {
    host: String,
    user: String,
    /// `https://ADDRESS`, without a slash at its end.
    root: String,
    authorization: String,
    system: Option<String>,
    agent: Agent,
}

impl Redfish {
    pub fn new(
        host: String,
        address: &str,
        user: &str,
        password: &str,
        system: Option<String>,
        authority: Option<&Path>,
    ) -> Result<Redfish, Error> {
        let agent = Agent::config_builder()
            // A proxy of the environment is for the Internet, and controllers are not there.
            .proxy(None)
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(TIMEOUT))
            .tls_config(tls(authority)?)
            .build()
            .new_agent();
        Ok(Redfish {
            host,
            user: user.to_owned(),
            root: root(address)?,
            authorization: format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))),
            system,
            agent,
        })
    }

    fn get(&self, path: &str) -> Result<Value, Error> {
        let request = self.agent.get(format!("{}{path}", self.root));
        let answer = request
            .header("Authorization", &self.authorization)
            .header("Accept", "application/json")
            .call();
        self.read(&format!("read {path}"), answer)
    }

    fn post(&self, action: &str, path: &str, body: &Value) -> Result<(), Error> {
        let request = self.agent.post(format!("{}{path}", self.root));
        let answer = request
            .header("Authorization", &self.authorization)
            .header("Content-Type", "application/json")
            .send(body.to_string());
        self.read(action, answer).map(drop)
    }

    fn patch(&self, action: &str, path: &str, body: &Value) -> Result<(), Error> {
        let request = self.agent.patch(format!("{}{path}", self.root));
        let answer = request
            .header("Authorization", &self.authorization)
            .header("Content-Type", "application/json")
            // Any version of the resource (DSP0266, 7.7).
            .header("If-Match", "*")
            .send(body.to_string());
        self.read(action, answer).map(drop)
    }

    fn read(
        &self,
        action: &str,
        answer: Result<ureq::http::Response<Body>, ureq::Error>,
    ) -> Result<Value, Error> {
        let mut answer = answer.map_err(|error| self.unreached(&error))?;
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(MAX_ANSWER_BYTES);
        let text = body
            .read_to_string()
            .map_err(|error| self.refused(action, error))?;
        let value = serde_json::from_str(&text).unwrap_or(Value::Null);
        let (host, user) = (self.host.clone(), self.user.clone());
        match status {
            200..=299 => Ok(value),
            401 => Err(Error::Password { host, user }),
            403 => Err(Error::Forbidden {
                host,
                user,
                action: action.to_owned(),
                reason: reason(&value, status),
            }),
            _ => Err(self.refused(action, reason(&value, status))),
        }
    }

    fn unreached(&self, error: &ureq::Error) -> Error {
        let (host, address) = (self.host.clone(), self.root.clone());
        match error {
            ureq::Error::HostNotFound => Error::Unknown { host, address },
            // A handshake's error is one of reading.
            ureq::Error::Io(io) if io.kind() == ErrorKind::InvalidData => {
                let reason = io.to_string();
                Error::Untrusted { host, reason }
            }
            ureq::Error::Io(_) | ureq::Error::Timeout(_) | ureq::Error::ConnectionFailed => {
                Error::Silent { host, address }
            }
            ureq::Error::Tls(_) | ureq::Error::Rustls(_) => {
                let reason = error.to_string();
                Error::Untrusted { host, reason }
            }
            other => self.refused("answer", other),
        }
    }

    fn refused(&self, action: &str, reason: impl Display) -> Error {
        Error::Refused {
            host: self.host.clone(),
            action: action.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// The path of the system, and what it says.
    fn system(&self) -> Result<(String, Value), Error> {
        let path = match &self.system {
            Some(system) => format!("{SYSTEMS}/{system}"),
            None => {
                let members = members(&self.get(SYSTEMS)?);
                match members.as_slice() {
                    [only] => only.clone(),
                    [] => return Err(self.refused("name its system", "it lists none")),
                    several => {
                        let names: Vec<&str> = several.iter().map(|path| last(path)).collect();
                        let reason = format!(
                            "it has several: set `system:` to one of {}",
                            names.join(", ")
                        );
                        return Err(self.refused("name its system", reason));
                    }
                }
            }
        };
        let said = self.get(&path)?;
        Ok((path, said))
    }

    fn readings(&self, chassis: &str) -> Result<Vec<Sensor>, Error> {
        let said = self.get(chassis)?;
        let mut all = Vec::new();
        for (resource, lists) in [("Thermal", THERMAL), ("Power", POWER)] {
            let Some(path) = said[resource]["@odata.id"].as_str() else {
                continue;
            };
            let document = self.get(path)?;
            for (list, value, unit) in lists {
                let items = document[*list].as_array().into_iter().flatten();
                all.extend(items.map(|item| sensor(item, value, unit)));
            }
        }
        match said["Sensors"]["@odata.id"].as_str() {
            Some(path) if all.is_empty() => self.one_by_one(path),
            _ => Ok(all),
        }
    }

    /// The readings of services without the two lists, which later versions deprecate: a resource for each (DSP0268, Sensor).
    fn one_by_one(&self, collection: &str) -> Result<Vec<Sensor>, Error> {
        let paths = members(&self.get(collection)?);
        let read = |path: &String| Ok(sensor(&self.get(path)?, "Reading", ""));
        paths.iter().map(read).collect()
    }
}

/// Lists of `Thermal` (DSP2046) with the reading of an item, and its unit.
const THERMAL: &[(&str, &str, &str)] = &[
    ("Temperatures", "ReadingCelsius", "degrees C"),
    ("Fans", "Reading", "RPM"),
];
/// The same of `Power`.
const POWER: &[(&str, &str, &str)] = &[
    ("PowerControl", "PowerConsumedWatts", "Watts"),
    ("Voltages", "ReadingVolts", "Volts"),
];

impl Controller for Redfish {
    fn power(&self) -> Result<Power, Error> {
        let (_, said) = self.system()?;
        match said["PowerState"].as_str() {
            Some("On" | "PoweringOff") => Ok(Power::On),
            Some("Off" | "PoweringOn") => Ok(Power::Off),
            other => Err(self.refused(
                "tell the power state",
                format!("it says {}", other.unwrap_or("nothing")),
            )),
        }
    }

    fn switch(&self, switch: Switch) -> Result<(), Error> {
        let (path, said) = self.system()?;
        let reset = &said["Actions"]["#ComputerSystem.Reset"];
        let target = reset["target"].as_str().map_or_else(
            || format!("{path}/Actions/ComputerSystem.Reset"),
            str::to_owned,
        );
        let wanted: &[&str] = match switch {
            Switch::On => &["On", "ForceOn"],
            Switch::Off => &["ForceOff"],
            Switch::Soft => &["GracefulShutdown"],
            Switch::Cycle => &["PowerCycle", "ForceRestart"],
            Switch::Reset => &["ForceRestart", "PowerCycle"],
        };
        let allowed = reset["ResetType@Redfish.AllowableValues"].as_array();
        let is_allowed = |word: &&&str| {
            allowed.is_none_or(|all| all.iter().any(|value| value.as_str() == Some(**word)))
        };
        let Some(word) = wanted.iter().find(is_allowed) else {
            return Err(self.refused(wanted[0], "it is not among its reset types"));
        };
        self.post(word, &target, &json!({ "ResetType": word }))
    }

    fn boot_once(&self, device: BootDevice, uefi: bool) -> Result<(), Error> {
        let (path, _) = self.system()?;
        let target = match device {
            BootDevice::None => "None",
            BootDevice::Disk => "Hdd",
            BootDevice::Pxe => "Pxe",
            BootDevice::Cdrom => "Cd",
            BootDevice::Bios => "BiosSetup",
        };
        let enabled = match device {
            BootDevice::None => "Disabled",
            _ => "Once",
        };
        let mut boot = json!({
            "BootSourceOverrideEnabled": enabled,
            "BootSourceOverrideTarget": target,
        });
        if uefi {
            boot["BootSourceOverrideMode"] = "UEFI".into();
        }
        self.patch("set the boot device", &path, &json!({ "Boot": boot }))
    }

    fn sensors(&self) -> Result<Vec<Sensor>, Error> {
        let mut all = Vec::new();
        for chassis in members(&self.get(CHASSIS)?) {
            all.extend(self.readings(&chassis)?);
        }
        match all.is_empty() {
            true => Err(self.refused(
                "tell its sensors",
                "no chassis has `Thermal`, `Power` or `Sensors` with readings",
            )),
            false => Ok(all),
        }
    }

    fn uuid(&self) -> Result<Option<String>, Error> {
        let (_, said) = self.system()?;
        Ok(said["UUID"].as_str().map(str::to_owned))
    }

    fn console(&self) -> Result<Command, Error> {
        Err(Error::NoConsole {
            host: self.host.clone(),
        })
    }

    fn free_console(&self) -> Result<(), Error> {
        self.console().map(drop)
    }
}

fn sensor(item: &Value, value: &str, unit: &str) -> Sensor {
    let text = |key: &str| item[key].as_str().map(str::to_owned);
    let state = match item["Status"]["Health"].as_str() {
        Some("OK") | None => "ok".to_owned(),
        Some(other) => other.to_lowercase(),
    };
    let reading = item[value].as_f64();
    Sensor {
        name: text("Name").or(text("MemberId")).unwrap_or_default(),
        value: reading,
        unit: text("ReadingUnits").unwrap_or_else(|| unit.to_owned()),
        state: match reading {
            Some(_) => state,
            None => "no reading".to_owned(),
        },
    }
}

fn members(collection: &Value) -> Vec<String> {
    let all = collection["Members"].as_array().into_iter().flatten();
    all.filter_map(|member| member["@odata.id"].as_str().map(str::to_owned))
        .collect()
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The message of an error (DSP0266, 8.6), or the status.
fn reason(value: &Value, status: u16) -> String {
    let error = &value["error"];
    let extended = error["@Message.ExtendedInfo"][0]["Message"].as_str();
    match extended.or(error["message"].as_str()) {
        Some(message) => message.to_owned(),
        None => format!("HTTP status {status}"),
    }
}

/// The service's root. Passwords travel without TLS only within this machine.
fn root(address: &str) -> Result<String, Error> {
    let bad = || Error::Address(address.to_owned());
    let url = match address.contains("://") {
        true => address.trim_end_matches('/').to_owned(),
        false => format!("https://{address}"),
    };
    let uri: ureq::http::Uri = url.parse().map_err(|_| bad())?;
    let host = uri.host().unwrap_or_default();
    let is_own = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
    let is_plain = uri.path().is_empty() || uri.path() == "/";
    match uri.scheme_str() {
        Some("https") if !host.is_empty() && is_plain => Ok(url),
        Some("http") if is_own && is_plain => Ok(url),
        _ => Err(bad()),
    }
}

fn tls(authority: Option<&Path>) -> Result<TlsConfig, Error> {
    let mut config = TlsConfig::builder();
    if let Some(path) = authority {
        let bad = |reason: String| Error::Authority {
            path: path.to_owned(),
            reason,
        };
        let text = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
        let mut found = Vec::new();
        for item in ureq::tls::parse_pem(&text) {
            match item {
                Ok(PemItem::Certificate(certificate)) => found.push(certificate),
                Ok(_) => {}
                Err(error) => return Err(bad(error.to_string())),
            }
        }
        if found.is_empty() {
            return Err(bad("no certificate is in it".into()));
        }
        config = config.root_certs(RootCerts::new_with_certs(&found));
    }
    Ok(config.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_leaves_the_machine_only_through_tls() {
        assert_eq!(root("192.0.2.8").unwrap(), "https://192.0.2.8");
        assert_eq!(
            root("https://bmc.lab:8443/").unwrap(),
            "https://bmc.lab:8443"
        );
        assert_eq!(
            root("http://127.0.0.1:8000").unwrap(),
            "http://127.0.0.1:8000"
        );
        for bad in [
            "http://192.0.2.8",
            "ftp://a",
            "https://a/redfish",
            "https://",
        ] {
            assert!(matches!(root(bad), Err(Error::Address(_))), "{bad}");
        }
    }

    #[test]
    fn readings_have_their_state() {
        let item = json!({"Name": "CPU", "ReadingCelsius": 61, "Status": {"Health": "Critical"}});
        let read = sensor(&item, "ReadingCelsius", "degrees C");
        assert_eq!((read.value, read.state.as_str()), (Some(61.0), "critical"));
        let none = sensor(
            &json!({"MemberId": "2", "ReadingCelsius": null}),
            "ReadingCelsius",
            "x",
        );
        assert_eq!(
            (none.name.as_str(), none.state.as_str()),
            ("2", "no reading")
        );
    }

    #[test]
    fn an_error_is_told_in_the_services_words() {
        let extended = json!({"error": {"message": "general", "@Message.ExtendedInfo": [{"Message": "exact"}]}});
        assert_eq!(reason(&extended, 400), "exact");
        assert_eq!(reason(&Value::Null, 404), "HTTP status 404");
    }
}
