//! `latlab host HOST sensors`.

use latlab_bmc::Controller;
use serde_json::json;

use crate::failure::{Outcome, of_controller};
use crate::format::Format;
use crate::{print, table};

const HEADER: [&str; 4] = ["SENSOR", "VALUE", "UNIT", "STATE"];

pub fn run(controller: &dyn Controller, format: Format) -> Outcome {
    let sensors = controller.sensors().map_err(of_controller)?;
    let rows: Vec<Vec<String>> = sensors
        .iter()
        .map(|sensor| {
            let value = sensor
                .value
                .map_or(String::new(), |value| value.to_string());
            vec![
                sensor.name.clone(),
                value,
                sensor.unit.clone(),
                sensor.state.clone(),
            ]
        })
        .collect();
    print::document(&match format {
        Format::Table => table::render(&HEADER, &rows),
        Format::Json => format!("{:#}\n", json!(sensors)),
        Format::Csv => table::csv(&HEADER, &rows),
    })
}
