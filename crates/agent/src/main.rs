//! latlab's hand inside a node: one statically linked binary that needs nothing of the guest's file system.
//!
//! As a guest's first process it is init: it loads the few modules the guest needs, mounts the image,
//! and serves the command channel. It also carries the small programs that the host runs inside nodes
//! (a file's write, the clock exchange, the probes), so that a measurement depends on no tool of the image.

mod begin;
mod boot;
mod cards;
mod clock;
mod confine;
mod docker;
mod dpdk;
mod echo;
mod files;
mod identity;
mod image;
mod kernel_line;
mod launch;
mod live;
mod log;
mod modules;
mod mpi;
mod network;
mod os;
mod pause;
mod port;
mod repeat;
mod respawn;
mod scratch;
mod serve;
mod session;
mod sources;
mod step;
mod terminal;
mod within;
mod workload;

use std::process::ExitCode;

const USAGE: &str = "usage: latlab-agent COMMAND
  init                  be a guest's first process (only as PID 1)
  pause                 be a container's first process
  serve --fd N          serve one client on an inherited connected socket
  serve --stdio         serve one client on standard input and output
  serve --unix PATH     serve clients that connect to this socket
  put PATH              write standard input to PATH
  begin COMMAND...      run a command at the time (ns of the monotonic clock) that standard input names
  repeat NS FILE PROGRAM ARGUMENT...
                        run a program again and again for a time, its output in FILE
  scratch new DIR       make a program's directory; tell whether it is in memory
  scratch remove DIR    remove it
  text BYTES FILE       write generated text, the same in every node
  digest                tell the digest of standard input
  launch FD STEP PROGRAM ARGUMENT...
                        execute a program; report a failure at descriptor FD
  respawn DIR BYTES PROGRAM...
                        run a daemon again when it ended by itself, its words kept in DIR/log
  log FD PATH FORMER BYTES ...
                        keep the newest of what comes from FD in PATH, and BYTES from before it in FORMER
  confine ... -- COMMAND...
                        run a guest's server where it sees and may do nothing else (on the host)
  docker FILE SOCKET DOCUMENT COUNT
                        start Docker's daemon as FILE says, and in it a container as DOCUMENT says, with COUNT
                        descriptors (on the host); as `docker-runtime`, be that daemon's runtime
  terminal COLUMNS ROWS -- COMMAND...
                        run a command at a terminal; standard input brings keys and sizes
  mpi serve NAME ADDRESS PORT TOKEN
                        run what `mpi start` asks for, in a node that is called NAME
  mpi start PORT TOKEN ADDRESS LINE...
                        have the node at ADDRESS run a line for its shell; be `mpirun`'s remote shell
  mpi run NAME PROGRAM ARGUMENT...
                        execute a program in a node that is called NAME
  mpi sources DIR       write the sources of latlab's own MPI programs into DIR
  huge-pages PAGE BYTES mount a guest's huge pages, if they are there
  ports DRIVER MAC...   give a guest's network cards to a driver of DPDK; tell where they are on the bus
  echo PORT             answer one connection with what it sends, for ten minutes
  clock-sync            answer the host's clock exchange over the shared page
  probe ...             run an end point of a measurement";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args_os()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    let first = args.get(1).map_or("", String::as_str);
    if std::process::id() == 1 && !matches!(first, "pause" | "probe") {
        return boot::run();
    }
    if docker::runtime::is_meant(args.first().map_or("", String::as_str)) {
        return ended(docker::runtime::run(std::env::args_os().skip(1)));
    }
    if first == "probe" {
        return latlab_probe::main(std::env::args_os().skip(2));
    }
    if first == "launch" {
        return ended(launch::run(std::env::args_os().skip(2)));
    }
    if first == "confine" {
        return ended(confine::run(std::env::args_os().skip(2)).map_err(|error| error.to_string()));
    }
    let rest: Vec<&str> = args.iter().skip(1).map(String::as_str).collect();
    let result = match rest.as_slice() {
        ["init"] => Err("init only works as a guest's first process (PID 1)".into()),
        ["pause"] if std::process::id() == 1 => pause::run(),
        ["pause"] => Err("pause only works as a container's first process (PID 1)".into()),
        ["serve", "--fd", fd] => serve::on_fd(fd),
        ["serve", "--stdio"] => serve::on_stdio(),
        ["serve", "--unix", path] => serve::on_socket(path),
        ["put", path] => files::put(path),
        ["begin", program, arguments @ ..] => begin::run(program, arguments),
        ["repeat", time_ns, output, program, arguments @ ..] => {
            repeat::run(time_ns, output, program, arguments)
        }
        ["scratch", "new", path] => scratch::new(path),
        ["scratch", "remove", path] => scratch::remove(path),
        ["text", bytes, path] => scratch::write_text(bytes, path),
        ["digest"] => scratch::digest(),
        ["log", logs @ ..] => log::keep(logs),
        ["respawn", directory, bytes, program, arguments @ ..] => {
            respawn::run(directory, bytes, program, arguments)
        }
        ["docker", file, socket, document, count] => {
            docker::daemon::run(file, socket, document, count)
        }
        ["terminal", columns, rows, "--", command @ ..] => {
            return ended_with(terminal::run(columns, rows, command));
        }
        ["huge-pages", page, bytes] => dpdk::huge_pages(page, bytes),
        ["ports", driver, macs @ ..] => dpdk::ports(driver, macs),
        ["echo", port] => echo::run(port),
        ["mpi", "serve", name, address, port, token] => mpi::serve(name, address, port, token),
        ["mpi", "start", port, token, address, line @ ..] => {
            return ended_with(mpi::start(port, token, address, line));
        }
        ["mpi", "run", name, program, arguments @ ..] => mpi::run(name, program, arguments),
        ["mpi", "sources", directory] => sources::write(directory),
        ["clock-sync"] => clock::answer(),
        _ => Err(USAGE.into()),
    };
    ended(result)
}

fn ended(result: Result<(), String>) -> ExitCode {
    ended_with(result.map(|()| 0))
}

fn ended_with(result: Result<u8, String>) -> ExitCode {
    match result {
        Ok(status) => ExitCode::from(status),
        Err(message) => {
            eprintln!("latlab-agent: {message}");
            ExitCode::from(2)
        }
    }
}
