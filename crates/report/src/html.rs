//! `report.html`: the page that `web/` builds, with the summary put into it.
//!
//! The page is one file without network access; the summary goes into its data element as JSON. Inside a
//! script element HTML ends at the first `</script`, whatever the type says, and changes its rules at `<!--`;
//! so every `<` becomes the JSON escape `\u003c`, which can start neither and reads back as the same text.

use latlab_model::results::Summary;
use latlab_samples::{RunDir, RunDirError, write_atomically};

const PAGE: &str = include_str!("../../../web/dist/report.html");
const PLACEHOLDER: &str = "/*latlab-summary*/";

#[derive(Debug, thiserror::Error)]
pub enum HtmlError {
    /// The embedded page has not exactly one place for the summary.
    #[error("cannot draw the report: the page has {found} places for the summary instead of one")]
    Page { found: usize },
    #[error("cannot draw the report: {0}")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Write(#[from] RunDirError),
}

/// The whole page. Fails when the page that was built in has no place for the summary.
pub fn render(summary: &Summary) -> Result<String, HtmlError> {
    fill(PAGE, summary)
}

/// Writes `report.html` into the run directory. Errors: as [`render`], and when the disk does not take it.
pub fn write(run: &RunDir, summary: &Summary) -> Result<(), HtmlError> {
    Ok(write_atomically(
        run.place("report.html"),
        render(summary)?.as_bytes(),
    )?)
}

fn fill(page: &str, summary: &Summary) -> Result<String, HtmlError> {
    let json = serde_json::to_string(summary)?.replace('<', "\\u003c");
    match page.split(PLACEHOLDER).collect::<Vec<_>>()[..] {
        [before, after] => Ok([before, &json, after].concat()),
        ref parts => Err(HtmlError::Page {
            found: parts.len() - 1,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn hostile_text_cannot_leave_its_element() {
        let mut summary = synthetic::summary();
        summary.study = "</script><script>alert(1)</script><!--".to_owned();
        let page = "<script id=\"summary\" type=\"application/json\">/*latlab-summary*/</script>";
        let html = fill(page, &summary).unwrap();
        assert_eq!(html.matches('<').count(), 2);

        let json = html
            .split_once('>')
            .unwrap()
            .1
            .strip_suffix("</script>")
            .unwrap();
        let back: Summary = serde_json::from_str(json).unwrap();
        assert_eq!(back.study, summary.study);
    }

    #[test]
    fn the_page_that_is_built_in_has_one_place_for_the_summary() {
        let html = render(&synthetic::summary()).unwrap();
        assert!(html.contains("latlab.summary/1") && !html.contains(PLACEHOLDER));
    }

    #[test]
    fn a_page_without_a_place_is_refused() {
        let error = fill("<html></html>", &synthetic::summary()).unwrap_err();
        assert!(matches!(error, HtmlError::Page { found: 0 }));
    }
}
