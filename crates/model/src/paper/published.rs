//! A figure as a paper prints it.

use crate::results::Direction;
use crate::spec::reader::FromYaml;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Published {
    /// A value. Its spread is the printed standard deviation, or half of a printed range.
    Figure { value: f64, spread: Option<f64> },
    /// A statement without a number, on the ratio to the first column.
    Direction(Direction),
}

impl Published {
    pub fn value(self) -> Option<f64> {
        match self {
            Published::Figure { value, .. } => Some(value),
            Published::Direction(_) => None,
        }
    }
}

impl FromYaml for Published {
    const EXPECTED: &'static str = "a published figure";
    const EXAMPLE: &'static str =
        "`76.2`, `76.2 (0.93)` with its standard deviation, `2 to 3`, or `less`, `same`, `more`";

    fn from_text(text: &str) -> Option<Self> {
        if let Some(direction) = Direction::of_word(text) {
            return Some(Published::Direction(direction));
        }
        let number = |text: &str| text.trim().parse().ok().filter(|x: &f64| x.is_finite());
        if let Some((low, high)) = text.split_once(" to ") {
            let (low, high) = (number(low)?, number(high)?);
            return (low < high).then(|| Published::Figure {
                value: f64::midpoint(low, high),
                spread: Some((high - low) / 2.0),
            });
        }
        let (value, spread) = match text.split_once('(') {
            Some((value, spread)) => (value, Some(number(spread.strip_suffix(')')?)?)),
            None => (text, None),
        };
        Some(Published::Figure {
            value: number(value)?,
            spread,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_a_number_with_its_spread_or_a_direction() {
        let read = Published::from_text;
        let figure = |value, spread| Some(Published::Figure { value, spread });
        assert_eq!(read("76.2"), figure(76.2, None));
        assert_eq!(read("76.2 (0.93)"), figure(76.2, Some(0.93)));
        assert_eq!(read("2 to 3"), figure(2.5, Some(0.5)));
        assert_eq!(read("less"), Some(Published::Direction(Direction::Less)));
        for text in ["", "fast", "76.2 (0.93", "3 to 2", "inf", "1 (x)"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
