//! IPMI 2.0 by ipmitool(1), over RMCP+ (`lanplus`).

use std::process::Command;
use std::time::{Duration, Instant};

use crate::controller::{BootDevice, Controller, Power, Sensor, Switch};
use crate::error::Error;
use crate::tool;

const TOOL: &str = "ipmitool";
/// Longest password (IPMI 2.0, 22.30).
const MAX_PASSWORD_BYTES: usize = 20;
/// Time of a command in all.
const TIMEOUT: Duration = Duration::from_secs(9);
/// The same of reading all sensors, each with requests of its own: a slow controller of a large machine takes a minute.
const SENSORS_TIMEOUT: Duration = Duration::from_secs(120);
/// Seconds until a request is sent again, and how often: a controller that is away is told after six seconds.
const RETRY_SECONDS: &str = "1";
const RETRIES: &str = "2";
/// A failure after this time is that of a controller that does not answer: one that refuses is quick.
const SILENCE: Duration = Duration::from_secs(3);

pub(crate) struct Ipmi {
    host: String,
    address: String,
    port: u16,
    user: String,
    password: String,
    cipher: Option<u16>,
}

impl Ipmi {
    pub fn new(
        host: String,
        address: &str,
        port: u16,
        user: &str,
        password: String,
        cipher: Option<u16>,
    ) -> Result<Ipmi, Error> {
        if password.len() > MAX_PASSWORD_BYTES {
            return Err(Error::LongPassword(password.len()));
        }
        Ok(Ipmi {
            host,
            address: address.to_owned(),
            port,
            user: user.to_owned(),
            password,
            cipher,
        })
    }

    /// The tool with the session's options. The password is in its environment, which other users cannot read.
    fn command(&self, words: &[&str]) -> Command {
        self.with_options(Command::new(TOOL), words)
    }

    fn with_options(&self, mut command: Command, words: &[&str]) -> Command {
        command
            .args(["-I", "lanplus", "-H", &self.address])
            .args(["-p", &self.port.to_string(), "-U", &self.user, "-E"])
            .args(["-N", RETRY_SECONDS, "-R", RETRIES])
            .env("IPMI_PASSWORD", &self.password)
            .env("LC_ALL", "C");
        if let Some(cipher) = self.cipher {
            command.args(["-C", &cipher.to_string()]);
        }
        command.args(words);
        command
    }

    fn run(&self, words: &[&str]) -> Result<tool::Said, Error> {
        let limit = limit_of(words);
        let run = |words: &[&str], limit| {
            tool::run(self.command(words), limit)
                .map_err(|source| Error::Tool { tool: TOOL, source })
        };
        let begun = Instant::now();
        let said = run(words, limit)?;
        let has_session = !said.stderr.contains("Unable to establish IPMI");
        match said.code {
            Some(0) => Ok(said),
            Some(_) if !has_session && begun.elapsed() >= SILENCE => Err(self.silent()),
            // Only with `-v` the tool says why.
            Some(_) if !has_session => {
                let told = run(&["-v", "mc", "info"], TIMEOUT)?;
                Err(self.no_session(&told))
            }
            Some(_) => Err(self.refused(words, &said)),
            // The tool's words are lost in its buffer: another request shows whether the controller answers.
            None => match run(&["mc", "info"], TIMEOUT)?.code {
                Some(0) => Err(Error::Unfinished {
                    host: self.host.clone(),
                    action: words.join(" "),
                    seconds: limit.as_secs(),
                }),
                _ => Err(self.silent()),
            },
        }
    }

    fn no_session(&self, told: &tool::Said) -> Error {
        let (host, user) = (self.host.clone(), self.user.clone());
        let text = format!("{}{}", told.stdout, told.stderr);
        let says = |words: &str| text.contains(words);
        if says("RAKP 2 HMAC is invalid") || says("RAKP 4 message has invalid integrity") {
            return Error::Password { host, user };
        }
        if says("unauthorized name") {
            return Error::User { host, user };
        }
        if says("invalid authentication algorithm")
            || says("invalid integrity algorithm")
            || says("no cipher suite match")
        {
            return Error::Cipher { host };
        }
        if says("Address lookup for") {
            let address = self.address.clone();
            return Error::Unknown { host, address };
        }
        let is_reason = |line: &&str| {
            !line.is_empty() && !line.starts_with("Loading") && !line.starts_with("Error: Unable")
        };
        match text.lines().map(str::trim).find(is_reason) {
            Some(reason) => Error::Refused {
                host,
                action: "open a session".into(),
                reason: reason.to_owned(),
            },
            None => self.silent(),
        }
    }

    fn silent(&self) -> Error {
        Error::Silent {
            host: self.host.clone(),
            address: format!("{} (UDP port {})", self.address, self.port),
        }
    }

    fn refused(&self, words: &[&str], said: &tool::Said) -> Error {
        let lines = || {
            said.stderr
                .lines()
                .chain(said.stdout.lines())
                .map(str::trim)
        };
        let reason = lines().find(|line| !line.is_empty());
        Error::Refused {
            host: self.host.clone(),
            action: words.join(" "),
            reason: reason.unwrap_or("it does not say why").to_owned(),
        }
    }
}

impl Controller for Ipmi {
    fn power(&self) -> Result<Power, Error> {
        let words = ["chassis", "power", "status"];
        let said = self.run(&words)?;
        match said.stdout.trim() {
            "Chassis Power is on" => Ok(Power::On),
            "Chassis Power is off" => Ok(Power::Off),
            _ => Err(self.refused(&words, &said)),
        }
    }

    fn switch(&self, switch: Switch) -> Result<(), Error> {
        let word = match switch {
            Switch::On => "on",
            Switch::Off => "off",
            Switch::Soft => "soft",
            Switch::Cycle => "cycle",
            Switch::Reset => "reset",
        };
        self.run(&["chassis", "power", word]).map(drop)
    }

    fn boot_once(&self, device: BootDevice, uefi: bool) -> Result<(), Error> {
        let word = match device {
            BootDevice::None => "none",
            BootDevice::Disk => "disk",
            BootDevice::Pxe => "pxe",
            BootDevice::Cdrom => "cdrom",
            BootDevice::Bios => "bios",
        };
        let mut words = vec!["chassis", "bootdev", word];
        if uefi {
            words.push("options=efiboot");
        }
        let said = self.run(&words)?;
        // The tool ends with 0 whether the controller took it or not.
        match said.stdout.contains("Set Boot Device to") {
            true => Ok(()),
            false => Err(self.refused(&words, &said)),
        }
    }

    fn sensors(&self) -> Result<Vec<Sensor>, Error> {
        let said = self.run(&["-c", "sdr", "list", "full"])?;
        Ok(said.stdout.lines().filter_map(sensor).collect())
    }

    fn uuid(&self) -> Result<Option<String>, Error> {
        let said = self.run(&["mc", "guid"])?;
        let line = said
            .stdout
            .lines()
            .find_map(|line| line.strip_prefix("System GUID"));
        Ok(line.map(|line| line.trim_start_matches([' ', ':']).trim().to_owned()))
    }

    fn console(&self) -> Result<Command, Error> {
        // On a pipe the tool would tell only with the machine's first words that the session is open.
        let mut lines = Command::new("stdbuf");
        lines.args(["-oL", TOOL]);
        Ok(self.with_options(lines, &["sol", "activate"]))
    }

    fn free_console(&self) -> Result<(), Error> {
        match self.run(&["sol", "deactivate"]) {
            // Nothing to end.
            Err(Error::Refused { reason, .. }) if reason.contains("already de-activated") => Ok(()),
            other => other.map(drop),
        }
    }
}

fn limit_of(words: &[&str]) -> Duration {
    match words.contains(&"sdr") {
        true => SENSORS_TIMEOUT,
        false => TIMEOUT,
    }
}

/// A line of `sdr list` as comma-separated values: name, reading, unit, state.
fn sensor(line: &str) -> Option<Sensor> {
    let mut fields = line.split(',');
    let name = fields.next()?.trim();
    let value = fields.next()?.trim();
    let unit = fields.next()?.trim();
    let state = fields.next()?.trim();
    Some(Sensor {
        name: name.to_owned(),
        value: value.parse().ok(),
        unit: unit.to_owned(),
        state: match state {
            "ns" => "no reading".to_owned(),
            state => state.to_owned(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_read_with_their_units() {
        let read = sensor("CPU Temp,61,degrees C,ok").unwrap();
        assert_eq!(
            (read.value, read.unit.as_str(), read.state.as_str()),
            (Some(61.0), "degrees C", "ok")
        );
        let none = sensor("Fan 2,,,ns").unwrap();
        assert_eq!((none.value, none.state.as_str()), (None, "no reading"));
        assert_eq!(sensor("no sensor"), None);
    }

    #[test]
    fn a_slow_reading_of_all_sensors_is_waited_for() {
        assert_eq!(limit_of(&["-c", "sdr", "list", "full"]), SENSORS_TIMEOUT);
        assert_eq!(limit_of(&["chassis", "power", "status"]), TIMEOUT);
    }

    #[test]
    fn a_password_that_ipmi_cannot_carry_is_refused() {
        let made = Ipmi::new("dut".into(), "a", 623, "u", "x".repeat(21), None);
        assert!(matches!(made, Err(Error::LongPassword(21))));
    }
}
