//! A small synchronous rtnetlink client: links, addresses, routes, queueing disciplines.
