//! Byte layouts that cross a process, kernel or network boundary.
