//! Tables of the effects of factors: for each measurement, what a level changes, and whether levels depend on each other.

use latlab_model::results::{Change, Effect, Summary, Verdict};

use crate::emulation;
use crate::style::{Look, WIDTH, style_of};
use crate::table::{Align, Table, wrap};
use crate::text::{ratio_with_interval, verdict};

const LEGEND: &str = "A level's ratio to its factor's reference is the mean over the levels of the other factors. \
                      × is the ratio of both together to the product of each alone; 1 if they do not depend on each other.";

pub(crate) fn tables(summary: &Summary, look: Look) -> String {
    let with = |name: &&str| {
        summary
            .effects
            .iter()
            .any(|effect| effect.measurement == **name)
    };
    let names = summary.measurements.iter().map(|info| info.name.as_str());
    let tables: String = names
        .filter(with)
        .map(|name| table(summary, name, look))
        .collect();
    if tables.is_empty() {
        return tables;
    }
    let legend = wrap(LEGEND, WIDTH - 2)
        .into_iter()
        .map(|line| format!("  {line}\n"));
    let emulated = match summary.cells.iter().any(|cell| cell.environment.emulated) {
        true => emulation::legend_lines(&emulation::named(&summary.cells)),
        false => String::new(),
    };
    tables + &look.dim(&(legend.collect::<String>() + &emulated))
}

fn table(summary: &Summary, measurement: &str, look: Look) -> String {
    let of_measurement = summary
        .effects
        .iter()
        .filter(|effect| effect.measurement == measurement);
    let effects: Vec<&Effect> = of_measurement.collect();
    let main = effects
        .first()
        .map_or("", |effect| effect.quantity.as_str());
    // The farthest percentile says most about the tail; all of them stand in summary.json.
    let mut others = effects.iter().map(|effect| effect.quantity.as_str());
    let tail = others.rfind(|quantity| quantity.starts_with('p'));
    let tail = tail.or_else(|| {
        effects
            .last()
            .map(|effect| effect.quantity.as_str())
            .filter(|last| *last != main)
    });
    let title = format!("effects, {measurement}");
    let mut columns = vec![(title.as_str(), Align::Left), (main, Align::Left)];
    columns.extend(tail.map(|tail| (tail, Align::Left)));
    columns.push(("verdict", Align::Left));
    let mut table = Table::new(&columns);
    // All cells of a measurement take part in each of its effects.
    let mut cells = summary.cells.iter();
    let is_emulated =
        cells.any(|cell| cell.measurement == measurement && cell.environment.emulated);
    for effect in effects.iter().filter(|effect| effect.quantity == main) {
        let shown = |effect: &Effect| ratio_with_interval(effect.ratio, Some(effect.ratio_ci95));
        let mut row = vec![name(&effect.changes), shown(effect)];
        row.extend(tail.map(|tail| {
            let is_same =
                |other: &&&Effect| other.quantity == tail && other.changes == effect.changes;
            effects
                .iter()
                .find(is_same)
                .map_or("*".to_owned(), |other| shown(other))
        }));
        row.push(emulation::marked_words(words(effect), is_emulated));
        let style = (effect.changes.len() == 1).then(|| style_of(effect.verdict));
        table.row(row, style.flatten());
    }
    table.section(look)
}

/// `kernel rt`, or `kernel rt × kind vm` for an interaction.
fn name(changes: &[Change]) -> String {
    let changes = changes
        .iter()
        .map(|change| format!("{} {}", change.factor, change.to));
    changes.collect::<Vec<_>>().join(" × ")
}

/// Neither way is better for an interaction: it says what cannot be told from each factor alone.
fn words(effect: &Effect) -> &'static str {
    match (effect.changes.len(), effect.verdict) {
        (2.., Verdict::Better | Verdict::Worse) if effect.ratio > 1.0 => "more together",
        (2.., Verdict::Better | Verdict::Worse) => "less together",
        (2.., Verdict::NoDifference) => "independent",
        (_, other) => verdict(other),
    }
}
