//! `hpcc`, the HPC Challenge: Linpack, STREAM and RandomAccess, which one program runs one after the other.
//!
//! Its problem sizes follow from Linpack's matrix. It takes no time to run for. Its tests of the network are read by
//! [`super::mpi_hpcc`].

use latlab_model::results::Figure;
use latlab_model::spec::Hpcc as Asked;

use super::work::{Evidence, Files, Place, Work, figure, shell};
use crate::workload::figure::of_regex;
use crate::workload::node::Ended;

/// The input, of which the problem's size and the grid of processes are asked for; the rest is as in HPCC's own example.
const INPUT: &str = "\
HPLinpack benchmark input file
latlab
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
{N}          Ns
1            # of NBs
80           NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
{P}          Ps
{Q}          Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
0            Number of additional problem sizes for PTRANS
1200         values of N
0            number of additional blocking sizes for PTRANS
40           values of NB
";
/// Ranks talk through shared memory, without a system call that a container may not make (process_vm_readv(2)). A name
/// of another machine is never looked for.
const MPI: &str = "mpirun --allow-run-as-root --oversubscribe --mca btl self,vader \
    --mca btl_vader_single_copy_mechanism none --mca plm isolated --mca orte_tmpdir_base \"$PWD\"";

pub(super) struct Hpcc {
    pub asked: Asked,
}

/// Rows and columns of a grid of ranks, as near to a square as there is.
fn grid(ranks: u32) -> [u32; 2] {
    let rows = (1..=ranks).take_while(|rows| rows * rows <= ranks);
    let rows = rows.filter(|rows| ranks % rows == 0).last().unwrap_or(1);
    [rows, ranks / rows]
}

/// Tells the version, and writes the input of a run of `ranks` ranks.
pub(super) fn preparation(at: &Place, n: u32, ranks: u32) -> Vec<String> {
    let [rows, columns] = grid(ranks).map(|number| number.to_string());
    let input = INPUT
        .replace("{N}", &n.to_string())
        .replace("{P}", &rows)
        .replace("{Q}", &columns);
    shell(&format!(
        "mpirun --version && cat >'{}/hpccinf.txt' <<'END'\n{input}END\n",
        at.directory
    ))
}

/// A line of `mpirun`, where its files are, and what it wrote into them.
pub(super) fn command(at: &Place, mpirun: &str) -> Vec<String> {
    shell(&format!(
        "cd '{}' && {mpirun} && cat hpccoutf.txt",
        at.directory
    ))
}

/// The value that the summary has under a name.
pub(super) fn value_of(name: &str, text: &str) -> Result<f64, String> {
    of_regex(&format!(r"(?m)^{name}=(\S+)$"), text)
}

/// Fails unless it ran with this size and number of ranks, and all its own tests passed.
pub(super) fn check(text: &str, n: u32, ranks: u32) -> Result<(), String> {
    for (name, asked) in [("HPL_N", n), ("CommWorldProcs", ranks)] {
        let found = value_of(name, text)?;
        if found != f64::from(asked) {
            return Err(format!("ran with {name} {found} instead of {asked}"));
        }
    }
    if value_of("Success", text)? != 1.0 {
        return Err("says that a test failed".into());
    }
    // Linpack's only test, and each of PTRANS; RandomAccess counts its wrong words.
    let passed = text
        .lines()
        .any(|line| line.starts_with("||Ax-b||") && line.ends_with("PASSED"));
    if !passed || text.contains("FAILED") {
        return Err("says that a residual is too large".into());
    }
    let wrong = value_of("MPIRandomAccess_ErrorsFraction", text)?;
    if wrong > 0.01 {
        return Err(format!("updated {wrong} of its words wrongly"));
    }
    Ok(())
}

/// The versions of the program and of MPI.
pub(super) fn version(prepared: &str, output: &str) -> Option<String> {
    let of = |name: &str| of_regex(&format!(r"(?m)^Version{name}=([0-9]+)$"), output).ok();
    let (major, minor, micro) = (of("Major")?, of("Minor")?, of("Micro")?);
    let mpi = prepared.lines().next()?.trim();
    Some(format!("{major}.{minor}.{micro}, {mpi}"))
}

/// All of them above zero: a clock that is too coarse says 0.
pub(super) fn above_zero(values: Vec<f64>) -> Result<Vec<f64>, String> {
    match values.iter().all(|value| *value > 0.0) {
        true => Ok(values),
        false => Err(format!("says {values:?}")),
    }
}

impl Work for Hpcc {
    fn name(&self) -> &str {
        "hpcc"
    }

    fn files(&self) -> Files {
        Files::Memory
    }

    fn preparation(&self, at: &Place) -> Vec<String> {
        preparation(at, self.asked.n, self.asked.processes)
    }

    fn command(&self, at: &Place, _prepared: &str) -> Result<Vec<String>, String> {
        let processes = self.asked.processes;
        Ok(command(at, &format!("{MPI} -np {processes} hpcc")))
    }

    fn figures(&self) -> Vec<Figure> {
        let mut all = vec![figure("metric", "Linpack", "GFLOPS", true)];
        for name in STREAM {
            let low = name.to_ascii_lowercase();
            let (name, title) = (format!("stream-{low}"), format!("STREAM, {low}"));
            all.push(figure(&name, &title, "GB/s", true));
        }
        all.push(figure("random-access", "RandomAccess", "GUPS", true));
        all
    }

    fn read(&self, ended: &Ended, _evidence: &Evidence) -> Result<Vec<f64>, String> {
        let text = ended.text();
        check(&text, self.asked.n, self.asked.processes)?;
        let of = |name: &str| value_of(name, &text);
        // Each rank's own, all at the same time.
        let ranks = f64::from(self.asked.processes);
        let mut values = vec![of("HPL_Tflops")? * 1e3];
        for name in STREAM {
            values.push(of(&format!("StarSTREAM_{name}"))? * ranks);
        }
        values.push(of("StarRandomAccess_GUPs")? * ranks);
        above_zero(values)
    }

    fn version(&self, prepared: &str, output: &str) -> Option<String> {
        version(prepared, output)
    }
}

const STREAM: [&str; 4] = ["Copy", "Scale", "Add", "Triad"];

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = include_str!("../../../tests/programs/hpcc.txt");

    fn work(processes: u32, n: u32) -> Hpcc {
        Hpcc {
            asked: Asked { processes, n },
        }
    }

    fn read(output: &str) -> Result<Vec<f64>, String> {
        work(1, 1000).read(&Ended::saying(output), &Evidence::default())
    }

    #[test]
    fn figures_of_a_real_run_are_read() {
        let values = read(OUTPUT).unwrap();
        assert_eq!(values.len(), work(1, 1000).figures().len());
        assert_eq!(values[0], 2.40037);
        assert_eq!(values[1..], [60.8105, 42.8993, 47.4313, 48.1405, 0.330943]);
        let version = work(1, 1000).version("mpirun (Open MPI) 4.1.4\n\nmore", OUTPUT);
        assert_eq!(version.as_deref(), Some("1.5.0, mpirun (Open MPI) 4.1.4"));
    }

    #[test]
    fn a_residual_that_is_too_large_is_no_result() {
        let failed = OUTPUT.replace("0.0071960 ...... PASSED", "71.9600 ...... FAILED");
        assert_eq!(
            read(&failed).unwrap_err(),
            "says that a residual is too large"
        );
        let size = OUTPUT.replace("HPL_N=1000", "HPL_N=10");
        assert_eq!(
            read(&size).unwrap_err(),
            "ran with HPL_N 10 instead of 1000"
        );
        let words = OUTPUT.replace(
            "RandomAccess_ErrorsFraction=0",
            "RandomAccess_ErrorsFraction=0.5",
        );
        assert_eq!(
            read(&words).unwrap_err(),
            "updated 0.5 of its words wrongly"
        );
        assert!(read("").unwrap_err().starts_with("wrote nothing that"));
    }

    #[test]
    fn ranks_make_a_grid_that_is_nearly_square() {
        for (processes, grid) in [
            (1, [1, 1]),
            (2, [1, 2]),
            (4, [2, 2]),
            (6, [2, 3]),
            (7, [1, 7]),
        ] {
            assert_eq!(super::grid(processes), grid);
        }
    }
}
