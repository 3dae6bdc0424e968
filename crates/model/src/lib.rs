//! latlab's documents: lab, study, plan, host facts, state and results. Pure: no I/O, no root.
