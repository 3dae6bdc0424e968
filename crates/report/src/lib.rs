//! Statistics, comparison, the terminal table and the HTML report.
