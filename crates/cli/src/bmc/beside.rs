//! Sensors of machines beside a run: read before and after each trial, never within a measured window.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use latlab_bmc::{Controller, Sensor};
use latlab_measure::run::{Deployed, Error, Labs, NotDeployed, Order};
use latlab_model::results::{NodeStart, SensorRecord, Trial};
use latlab_samples::RunDir;

use super::file;
use crate::failure::{Failure, of_controller};

/// Units of temperature and of power, as controllers name them.
const UNITS: [&str; 5] = ["degrees C", "degrees F", "Cel", "Watts", "W"];
const GOOD: &str = "ok";
/// State of a sensor of a part that is not there.
const ABSENT: &str = "no reading";
/// State of a sensor whose controller does not answer any more.
const SILENT: &str = "no answer";

/// Machines whose sensors are read.
pub struct Machines(Vec<Machine>);

struct Machine {
    name: String,
    controller: Box<dyn Controller>,
    /// The sensors that the first answer had.
    known: Vec<Sensor>,
}

impl Machines {
    /// Asks each of these hosts once, so that a run does not begin without an answer.
    pub fn find(path: &Path, names: &[String]) -> Result<Machines, Failure> {
        if names.is_empty() {
            return Ok(Machines(Vec::new()));
        }
        let hosts = file::read(path)?;
        let mut machines = Vec::new();
        for name in names {
            let host = file::find(&hosts, path, name)?;
            let controller = latlab_bmc::controller(host).map_err(of_controller)?;
            let known = read(&*controller).map_err(of_controller)?;
            if known.is_empty() {
                let message = format!(
                    "the controller of host `{name}` has no sensor of temperature or power"
                );
                return Err(Failure::new(
                    message,
                    "`latlab host HOST sensors` lists all",
                ));
            }
            machines.push(Machine {
                name: name.clone(),
                controller,
                known,
            });
        }
        Ok(Machines(machines))
    }

    fn read(&self) -> Vec<Vec<Sensor>> {
        let read = self.0.iter().map(|machine| read(&*machine.controller));
        read.map(Result::unwrap_or_default).collect()
    }

    fn records(&self, before: &[Vec<Sensor>], after: &[Vec<Sensor>]) -> Vec<SensorRecord> {
        let mut records = Vec::new();
        for (index, machine) in self.0.iter().enumerate() {
            for sensor in &machine.known {
                let is_same =
                    |other: &&Sensor| (&other.name, &other.unit) == (&sensor.name, &sensor.unit);
                let of = |all: &[Vec<Sensor>]| all.get(index)?.iter().find(is_same).cloned();
                records.push(record(&machine.name, sensor, of(before), of(after)));
            }
        }
        records
    }
}

/// The readings of temperature and power, and of what is not well.
fn read(controller: &dyn Controller) -> Result<Vec<Sensor>, latlab_bmc::Error> {
    let mut sensors = numbered(controller.sensors()?);
    sensors.retain(|sensor| {
        let tells = sensor.value.is_some() || ![GOOD, ABSENT].contains(&sensor.state.as_str());
        UNITS.contains(&sensor.unit.as_str()) && tells
    });
    Ok(sensors)
}

/// Gives sensors of one name and unit numbers, in the controller's order, which is the same in every answer.
fn numbered(mut sensors: Vec<Sensor>) -> Vec<Sensor> {
    let mut known: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
    for (index, sensor) in sensors.iter().enumerate() {
        let key = (sensor.name.clone(), sensor.unit.clone());
        known.entry(key).or_default().push(index);
    }
    for same in known.into_values().filter(|same| same.len() > 1) {
        for (index, number) in same.into_iter().zip(1..) {
            sensors[index].name += &format!(" #{number}");
        }
    }
    sensors
}

fn record(
    host: &str,
    sensor: &Sensor,
    before: Option<Sensor>,
    after: Option<Sensor>,
) -> SensorRecord {
    let state = match (&before, &after) {
        (None, _) | (_, None) => SILENT.to_owned(),
        (Some(before), Some(after)) if after.state == GOOD => before.state.clone(),
        (_, Some(after)) => after.state.clone(),
    };
    SensorRecord {
        host: host.to_owned(),
        name: sensor.name.clone(),
        unit: sensor.unit.clone(),
        before: before.and_then(|sensor| sensor.value),
        after: after.and_then(|sensor| sensor.value),
        state,
    }
}

/// Labs of a run with machines' sensors beside their trials.
pub struct Beside<'a> {
    pub labs: &'a dyn Labs,
    pub machines: &'a Machines,
}

impl Labs for Beside<'_> {
    fn deploy(&self, lab: usize) -> Result<Box<dyn Deployed + '_>, NotDeployed> {
        let lab = self.labs.deploy(lab)?;
        let machines = self.machines;
        match machines.0.is_empty() {
            true => Ok(lab),
            false => Ok(Box::new(Sensed { lab, machines })),
        }
    }

    fn between_replicates(&self) -> Result<(), String> {
        self.labs.between_replicates()
    }
}

struct Sensed<'a> {
    lab: Box<dyn Deployed + 'a>,
    machines: &'a Machines,
}

impl Deployed for Sensed<'_> {
    fn starts(&self) -> &[NodeStart] {
        self.lab.starts()
    }

    fn measure(&self, order: &Order<'_>, dir: &RunDir) -> Result<Trial, Error> {
        let before = self.machines.read();
        let mut trial = self.lab.measure(order, dir)?;
        trial.sensors = self.machines.records(&before, &self.machines.read());
        dir.write_trial(&trial)?;
        Ok(trial)
    }

    fn wait_for_quiet(&self, stop: &AtomicBool) {
        self.lab.wait_for_quiet(stop);
    }

    fn destroy(self: Box<Self>) -> Result<(), Error> {
        self.lab.destroy()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use latlab_bmc::{BootDevice, Power, Switch};

    use super::*;

    fn sensor(value: f64, state: &str) -> Sensor {
        Sensor {
            name: "CPU".into(),
            value: Some(value),
            unit: "degrees C".into(),
            state: state.into(),
        }
    }

    /// A controller that only reads sensors.
    struct Readings(Vec<Sensor>);

    impl Controller for Readings {
        fn power(&self) -> Result<Power, latlab_bmc::Error> {
            unreachable!()
        }

        fn switch(&self, _: Switch) -> Result<(), latlab_bmc::Error> {
            unreachable!()
        }

        fn boot_once(&self, _: BootDevice, _: bool) -> Result<(), latlab_bmc::Error> {
            unreachable!()
        }

        fn sensors(&self) -> Result<Vec<Sensor>, latlab_bmc::Error> {
            Ok(self.0.clone())
        }

        fn uuid(&self) -> Result<Option<String>, latlab_bmc::Error> {
            unreachable!()
        }

        fn console(&self) -> Result<Command, latlab_bmc::Error> {
            unreachable!()
        }

        fn free_console(&self) -> Result<(), latlab_bmc::Error> {
            unreachable!()
        }
    }

    #[test]
    fn sensors_of_one_name_have_their_own_readings() {
        let named = |name: &str, unit: &str, value: Option<f64>| Sensor {
            name: name.into(),
            value,
            unit: unit.into(),
            state: if value.is_some() { GOOD } else { ABSENT }.into(),
        };
        let answer = |first: Option<f64>| {
            let sensors = vec![
                named("Temp", "degrees C", first),
                named("Temp", "degrees C", Some(90.0)),
                named("Temp", "Watts", Some(7.0)),
                named("Inlet", "degrees C", Some(20.0)),
            ];
            read(&Readings(sensors)).unwrap()
        };
        let machines = Machines(vec![Machine {
            name: "dut".into(),
            controller: Box::new(Readings(Vec::new())),
            known: answer(Some(40.0)),
        }]);
        // The first has no reading after the trial.
        let records = machines.records(&[answer(Some(40.0))], &[answer(None)]);
        let found: Vec<_> = records
            .iter()
            .map(|r| (r.name.as_str(), r.before, r.after))
            .collect();
        let expected = [
            ("Temp #1", Some(40.0), None),
            ("Temp #2", Some(90.0), Some(90.0)),
            ("Temp", Some(7.0), Some(7.0)),
            ("Inlet", Some(20.0), Some(20.0)),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_worse_state_of_a_trial_is_kept() {
        let good = sensor(61.0, GOOD);
        let state = |before, after| record("dut", &good, before, after).state;
        let hot = || Some(sensor(99.0, "ucr"));
        assert_eq!(state(Some(good.clone()), Some(good.clone())), GOOD);
        assert_eq!(state(hot(), Some(good.clone())), "ucr");
        assert_eq!(state(Some(good.clone()), hot()), "ucr");
        assert_eq!(state(Some(good.clone()), None), SILENT);
        assert_eq!(record("dut", &good, hot(), None).before, Some(99.0));
    }
}
