//! Runs probes and workloads on a deployed lab, checks that the host kept up, records raw samples.
