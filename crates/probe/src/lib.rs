//! What sends, receives and times inside a node: the end points of latlab's own measurements.
