//! A YAML tree as text that a person would have written: blocks outside, a line for what is small.
//!
//! Comments and the choice of quotes are not in the tree, so a text that was read is not written as it was. What is
//! read from the written text equals the tree, except for the places.

use super::yaml::{Value, Yaml};

/// Widest line of a list or mapping that is written in one.
const WIDTH: usize = 100;

impl Yaml {
    /// The tree as a document.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        block(self, 0, &mut out);
        out
    }
}

/// Whole lines, each behind `indent` blanks.
fn block(yaml: &Yaml, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    match &yaml.value {
        Value::Map(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                let key = flow(key);
                *out += &format!("{pad}{key}:");
                after(value, indent, indent + key.len() + 2, out);
            }
        }
        Value::Seq(items) if !items.is_empty() => {
            for item in items {
                *out += &format!("{pad}-");
                if is_flat(item) && indent + 2 + flow(item).len() <= WIDTH
                    || item.scalar().is_some()
                {
                    after(item, indent, indent + 2, out);
                } else {
                    let mut inner = String::new();
                    block(item, indent + 2, &mut inner);
                    *out += " ";
                    *out += &inner[indent + 2..];
                }
            }
        }
        _ => *out += &format!("{pad}{}\n", flow(yaml)),
    }
}

/// The value of a key or item whose line has `column` characters.
fn after(value: &Yaml, indent: usize, column: usize, out: &mut String) {
    let lines = value.scalar().and_then(literal_lines);
    if value.is_null() {
        *out += "\n";
    } else if let Some((header, lines)) = lines {
        *out += &format!(" {header}\n");
        for line in lines {
            let pad = if line.is_empty() { 0 } else { indent + 2 };
            *out += &format!("{}{line}\n", " ".repeat(pad));
        }
    } else if value.scalar().is_some() || is_flat(value) && column + flow(value).len() <= WIDTH {
        *out += &format!(" {}\n", flow(value));
    } else {
        *out += "\n";
        block(value, indent + 2, out);
    }
}

/// Whether nothing in it has parts of its own.
fn is_flat(yaml: &Yaml) -> bool {
    let is_line = |part: &Yaml| part.scalar().is_some_and(|text| !text.contains('\n'));
    match &yaml.value {
        Value::Scalar { .. } => is_line(yaml),
        Value::Seq(items) => items.iter().all(is_line),
        Value::Map(entries) => entries
            .iter()
            .all(|(key, value)| is_line(key) && is_line(value)),
    }
}

/// Header and lines of a block scalar, if the text can be one: it has several lines, and none needs quotes.
fn literal_lines(text: &str) -> Option<(&'static str, Vec<&str>)> {
    let (header, body) = match text.strip_suffix('\n') {
        Some(body) => ("|", body),
        None => ("|-", text),
    };
    let is_plain = |c: char| !c.is_control() && !is_line_break(c) || c == '\t';
    let lines: Vec<&str> = body.split('\n').collect();
    let first = lines.first()?;
    let ends_well = lines.last().is_some_and(|last| !last.is_empty());
    // A first line that is indented would set the indentation of all.
    let begins_well = first.chars().next().is_some_and(|c| !c.is_whitespace());
    let good = lines.len() > 1
        && begins_well
        && ends_well
        && body.chars().all(|c| c == '\n' || is_plain(c));
    good.then_some((header, lines))
}

/// Characters beside controls that some reader takes for the end of a line, or drops.
fn is_line_break(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// The value in one line.
fn flow(yaml: &Yaml) -> String {
    match &yaml.value {
        Value::Scalar { .. } if yaml.is_null() => "null".into(),
        Value::Scalar { text, .. } if is_plain(text) => text.clone(),
        Value::Scalar { text, .. } => quoted(text),
        Value::Seq(items) => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(entries) => {
            let entry = |(key, value): &(Yaml, Yaml)| format!("{}: {}", flow(key), flow(value));
            let entries: Vec<String> = entries.iter().map(entry).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

/// Words that readers of YAML 1.1 or 1.2 take for something else than a text.
const TAKEN: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];

/// Whether every reader takes the text, without quotes, as it is: as itself, or as the number that it is.
fn is_plain(text: &str) -> bool {
    let begins = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_');
    let inside =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '.' | '-' | '+' | '@' | '%');
    let is_path = text.starts_with("./") || text.starts_with("../");
    (is_path || text.chars().next().is_some_and(begins))
        && text.chars().all(inside)
        && !TAKEN.contains(&text.to_ascii_lowercase().as_str())
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out += "\\n",
            '\t' => out += "\\t",
            c if c.is_control() || is_line_break(c) => out += &format!("\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Mark;

    fn written(text: &str) -> String {
        Yaml::parse(text).unwrap().to_text()
    }

    #[test]
    fn small_things_are_lines_and_the_rest_are_blocks() {
        let text = "\
name: pair
topology:
  nodes:
    client: {kind: native}
    left:
    server:
      kind: container
      env: {A: \"1 2\"}
      setup: |
        echo a

        echo b
  links:
    - endpoints: [\"client:eth0\", \"server:eth0\"]
      mtu: 1500
    - endpoints:
        - {node: client, interface: eth1, ipv4: 10.0.0.1/24}
        - \"server:eth1\"
";
        assert_eq!(written(text), text);
        let long = format!("a: [{}]\n", ["word"; 30].join(", "));
        assert_eq!(written(&long).lines().count(), 31);
    }

    /// The tree without its places.
    fn bare(yaml: &Yaml) -> String {
        match &yaml.value {
            Value::Scalar { text, .. } if !yaml.is_null() => format!("{text:?}"),
            Value::Scalar { .. } => "null".into(),
            Value::Seq(items) => format!("{:?}", items.iter().map(bare).collect::<Vec<_>>()),
            Value::Map(entries) => {
                let each = entries.iter().map(|(key, value)| (bare(key), bare(value)));
                format!("{:?}", each.collect::<Vec<_>>())
            }
        }
    }

    #[test]
    fn any_text_is_read_as_it_was_written() {
        let texts = [
            "",
            " ",
            "null",
            "~",
            "Yes",
            "-",
            "- a",
            "a: b",
            "a #b",
            "#",
            "*a",
            "&a",
            "%x",
            "@x",
            "1",
            "1.5",
            "02:00",
            "it's",
            "\"",
            "\\",
            "\t",
            "a\nb",
            "a\nb\n",
            "a\n\nb",
            "\na",
            "a\n",
            "a\n\n",
            " a\nb",
            "a\n b\n",
            "a\r\nb",
            "\u{1b}[0m",
            "\u{85}",
            "\u{2028}",
            "\u{feff}",
            "é",
            "漢字",
            "a b\n# c\n---\n...",
            "{a",
            "[a",
            "a, b",
            "| x",
            "> x",
            "!x",
            "? x",
            ": x",
            "`x",
            "a:",
            "trailing \nline",
            "\t\nx",
            "x\n\ty",
        ];
        let here = Mark::new(1, 1);
        let items: Vec<Yaml> = texts.iter().map(|text| Yaml::text(here, *text)).collect();
        let by_key = |item: &Yaml| Yaml::map(here, vec![(item.scalar().unwrap(), item.clone())]);
        let maps = items.iter().map(by_key).collect();
        let deep = Yaml::list(vec![Yaml::list(items.clone()), Yaml::list(maps)]);
        let all = Yaml::map(here, vec![("a", Yaml::list(items)), ("b", deep)]);
        let text = all.to_text();
        assert_eq!(bare(&Yaml::parse(&text).unwrap()), bare(&all), "{text}");
    }

    #[test]
    fn empty_lists_and_mappings_stay() {
        assert_eq!(
            written("a: {}\nb: []\nc: [[], {}]\n"),
            "a: {}\nb: []\nc:\n  - []\n  - {}\n"
        );
    }
}
