use std::sync::Arc;

use super::page::Pages;
use crate::index::Scanner;

/// The state that requests share.
#[derive(Debug)]
pub struct Shared {
    pub scanner: Arc<Scanner>,
    pub pages: Pages,
}
