//! A paper's document as written.

use std::collections::BTreeMap;

use super::name::PaperName;
use super::published::Published;
use crate::diagnostic::{Diagnostics, Spanned};
use crate::results::{ActionKind, PaperAbsent};
use crate::spec::reader::{self, FromYaml, Object, read};
use crate::spec::workload::Better;
use crate::spec::yaml::Yaml;

#[derive(Debug, Clone, PartialEq)]
pub struct Paper {
    pub name: PaperName,
    pub title: String,
    pub authors: String,
    /// Place and year of publication.
    pub published: String,
    /// The machine and the programs that the figures come from.
    pub testbed: String,
    /// The studies that measure its quantities here, in the order of running.
    pub studies: Vec<String>,
    pub tables: Vec<Table>,
    /// Figures that are not measured here.
    pub absent: Vec<PaperAbsent>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    pub title: String,
    /// Table, figure or section of the paper.
    pub place: String,
    /// The first one is divided by.
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
    /// A reader must know this of the paper's figures.
    pub note: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub name: String,
    pub select: Select,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub name: String,
    /// Unit of the published figures; empty for ratios.
    pub unit: String,
    pub better: Better,
    /// One a column; absent where the paper has none.
    pub published: Vec<Option<Published>>,
    /// The figures are ratios to the first column already.
    pub are_ratios: bool,
    pub select: Select,
}

/// Where a run's own figure is found. The table's, the column's and the row's parts add up; the last one wins.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Select {
    pub study: Option<String>,
    pub measurement: Option<String>,
    pub quantity: Option<Quantity>,
    /// By factor.
    pub levels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Quantity {
    /// A metric of the cell, by its name.
    Metric(String),
    /// The median latency.
    Latency,
    /// The standard deviation of the latency.
    Deviation,
    /// The 99th percentile of the latency, and the 99.9th.
    P99,
    P999,
    /// The start of all nodes of a kind, `container` or `vm`.
    Start(String),
    /// The longest time without an arrival around an action.
    Gap(ActionKind),
    /// The time from an action's order to its end.
    Took(ActionKind),
    /// The standard deviation of a quantity's values, one a trial.
    Spread(Box<Quantity>),
}

impl Select {
    /// This selection with the parts that `other` has.
    #[must_use]
    pub fn and(&self, other: &Select) -> Select {
        let mut levels = self.levels.clone();
        levels.extend(other.levels.clone());
        Select {
            study: other.study.clone().or_else(|| self.study.clone()),
            measurement: other
                .measurement
                .clone()
                .or_else(|| self.measurement.clone()),
            quantity: other.quantity.clone().or_else(|| self.quantity.clone()),
            levels,
        }
    }
}

impl FromYaml for Quantity {
    const EXPECTED: &'static str = "a quantity of a run";
    const EXAMPLE: &'static str = "`latency`, `p99`, `p99.9`, `sd`, `gap migrate`, `took restore`, `start vm`, `metric NAME`, or `spread` and one of these";

    fn from_text(text: &str) -> Option<Self> {
        Some(match text.split_once(' ') {
            None => match text {
                "latency" => Quantity::Latency,
                "sd" => Quantity::Deviation,
                "p99" => Quantity::P99,
                "p99.9" => Quantity::P999,
                _ => return None,
            },
            Some(("gap", act)) => Quantity::Gap(ActionKind::of_word(act)?),
            Some(("took", act)) => Quantity::Took(ActionKind::of_word(act)?),
            Some(("start", kind)) => Quantity::Start(kind.to_owned()),
            Some(("metric", name)) => Quantity::Metric(name.to_owned()),
            Some(("spread", of)) => Quantity::Spread(Box::new(Self::from_text(of)?)),
            _ => return None,
        })
    }
}

impl Paper {
    /// A paper that comes with latlab. Its errors are a mistake of this source; a test reads all of them.
    pub fn built_in(name: PaperName) -> Result<Paper, Diagnostics> {
        Paper::parse(name.text())
    }

    /// Reads a paper from its text. Errors: every mistake, with its place.
    pub fn parse(text: &str) -> Result<Paper, Diagnostics> {
        let yaml = Yaml::parse(text)?;
        let mut errors = Diagnostics::default();
        let mut o = Object::new(&yaml, "the paper", &mut errors);
        let name = o.need::<PaperName>("name", &mut errors);
        let paper = Paper {
            name: name.map_or(PaperName::ALL[0], |name| name.value),
            title: text_of(&mut o, "title", &mut errors),
            authors: text_of(&mut o, "authors", &mut errors),
            published: text_of(&mut o, "published", &mut errors),
            testbed: text_of(&mut o, "testbed", &mut errors),
            studies: plain(o.list("studies", &mut errors)),
            tables: items(&mut o, "tables", &mut errors)
                .iter()
                .map(|yaml| read_table(yaml, &mut errors))
                .collect(),
            absent: items(&mut o, "absent", &mut errors)
                .iter()
                .map(|yaml| read_absent(yaml, &mut errors))
                .collect(),
        };
        o.finish(&mut errors);
        errors.into_result(paper)
    }
}

/// A text that must be there.
fn text_of(o: &mut Object<'_>, key: &'static str, errors: &mut Diagnostics) -> String {
    let text = o.need::<String>(key, errors);
    text.map_or(String::new(), |text| text.value)
}

fn plain<T>(list: Vec<Spanned<T>>) -> Vec<T> {
    list.into_iter().map(|item| item.value).collect()
}

/// The items of a list of mappings; none where there is no list.
fn items<'y>(o: &mut Object<'y>, key: &'static str, errors: &mut Diagnostics) -> &'y [Yaml] {
    let what = format!("`{key}` of {}", o.what);
    let hint = "begin each item with `- `";
    let items = |yaml| reader::items(yaml, &what, hint, errors);
    o.take(key).and_then(items).unwrap_or_default()
}

fn read_table(yaml: &Yaml, errors: &mut Diagnostics) -> Table {
    let mut o = Object::new(yaml, "a table", errors);
    let title = text_of(&mut o, "title", errors);
    o.what = format!("table `{title}`");
    let place = text_of(&mut o, "where", errors);
    let unit: String = o.value("unit", errors).unwrap_or_default();
    let better = o.value("better", errors).unwrap_or(Better::Lower);
    let common = read_select(&mut o, errors);
    let columns: Vec<Column> = items(&mut o, "columns", errors)
        .iter()
        .map(|yaml| read_column(yaml, &common, errors))
        .collect();
    let rows = items(&mut o, "rows", errors).iter();
    let rows = rows.map(|yaml| read_row(yaml, (&unit, better), columns.len(), errors));
    let rows = rows.collect();
    let note = o.value("note", errors);
    o.finish(errors);
    Table {
        title,
        place,
        columns,
        rows,
        note,
    }
}

fn read_column(yaml: &Yaml, common: &Select, errors: &mut Diagnostics) -> Column {
    let mut o = Object::new(yaml, "a column", errors);
    let name = text_of(&mut o, "name", errors);
    let select = common.and(&read_select(&mut o, errors));
    o.finish(errors);
    Column { name, select }
}

fn read_row(
    yaml: &Yaml,
    (unit, better): (&str, Better),
    columns: usize,
    errors: &mut Diagnostics,
) -> Row {
    let mut o = Object::new(yaml, "a row", errors);
    let name = text_of(&mut o, "name", errors);
    o.what = format!("row `{name}`");
    let own_unit = o.value("unit", errors);
    let own_better = o.value("better", errors);
    let published = items(&mut o, "published", errors);
    let ratios = items(&mut o, "ratios", errors);
    let are_ratios = !ratios.is_empty();
    let given = if are_ratios { ratios } else { published };
    if given.len() != columns {
        let message = format!("{} has {} figures", o.what, given.len());
        errors.add(
            o.at,
            message,
            format!("one for each of {columns} columns, `null` for none"),
        );
    }
    let what = format!("a figure of {}", o.what);
    let figure = |yaml: &Yaml| (!yaml.is_null()).then(|| read::<Published>(yaml, &what, errors));
    let published = given
        .iter()
        .map(figure)
        .map(|f| f.flatten().map(|f| f.value));
    let published = published.collect();
    let select = read_select(&mut o, errors);
    o.finish(errors);
    Row {
        name,
        unit: own_unit.unwrap_or_else(|| unit.to_owned()),
        better: own_better.unwrap_or(better),
        published,
        are_ratios,
        select,
    }
}

fn read_select(o: &mut Object<'_>, errors: &mut Diagnostics) -> Select {
    let levels = o.object("levels", errors);
    let levels = levels.iter().flat_map(Object::entries);
    let levels = levels.map(|(factor, level)| (factor.value.to_owned(), level.compact()));
    let levels = levels.collect();
    Select {
        study: o.value("study", errors),
        measurement: o.value("measurement", errors),
        quantity: o.value("quantity", errors),
        levels,
    }
}

fn read_absent(yaml: &Yaml, errors: &mut Diagnostics) -> PaperAbsent {
    let mut o = Object::new(yaml, "an absent figure", errors);
    let absent = PaperAbsent {
        name: text_of(&mut o, "name", errors),
        place: text_of(&mut o, "where", errors),
        reason: text_of(&mut o, "reason", errors),
    };
    o.finish(errors);
    absent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_paper_is_read_and_has_the_name_that_it_is_known_by() {
        for name in PaperName::ALL {
            let paper = Paper::built_in(*name).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(paper.name, *name);
            assert!(paper.tables.iter().all(|table| !table.rows.is_empty()));
        }
    }

    #[test]
    fn a_row_has_a_figure_for_each_column() {
        let text = "name: dhar2016\ntitle: t\nauthors: a\npublished: p\ntestbed: m\nstudies: [boot]\n\
                    tables:\n  - {title: T, where: W, columns: [{name: a}, {name: b}], \
                    rows: [{name: r, published: [1, 2, 3]}]}\n";
        let errors = Paper::parse(text).unwrap_err().to_string();
        assert!(errors.contains("row `r` has 3 figures"), "{errors}");
    }
}
