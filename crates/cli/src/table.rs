//! Columns of text, as wide as their widest cell.

use latlab_model::diagnostic::plain_line;
use latlab_report::csv_row;

/// Renders rows below a header; the last column is not padded.
pub fn render(header: &[&str], rows: &[Vec<String>]) -> String {
    let plain = |row: &Vec<String>| row.iter().map(|cell| plain_line(cell)).collect();
    let rows: &[Vec<String>] = &rows.iter().map(plain).collect::<Vec<_>>();
    let mut widths: Vec<usize> = header.iter().map(|h| width(h)).collect();
    for row in rows {
        for (w, cell) in widths.iter_mut().zip(row) {
            *w = (*w).max(width(cell));
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.zip(&widths).map(|(cell, &w)| format!("{cell:w$}  "));
        padded.collect::<String>().trim_end().to_string() + "\n"
    };
    let mut out = line(&mut header.iter().copied());
    for row in rows {
        out += &line(&mut row.iter().map(String::as_str));
    }
    out
}

/// Renders rows as CSV.
pub fn csv(header: &[&str], rows: &[Vec<String>]) -> String {
    let rows = rows.iter().map(|row| csv_row(row));
    csv_row(header) + &rows.collect::<String>()
}

/// The columns of a text. All characters printed here are one column wide.
fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_commas_are_quoted() {
        let rows = vec![
            vec!["a".to_string(), "x,y".into()],
            vec!["long".into(), "µ".into()],
        ];
        assert_eq!(render(&["n", "v"], &rows), "n     v\na     x,y\nlong  µ\n");
        assert_eq!(csv(&["n", "v"], &rows), "n,v\na,\"x,y\"\nlong,µ\n");
    }
}
