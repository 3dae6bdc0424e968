//! Programs that know nothing of streams, through them and over a plain link: nginx with wrk, PostgreSQL with pgbench, and
//! a static program of musl. Only in whole.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use common::{Bench, enter, tool, until};
use serde_json::Value;

const LAB: &str = "name: NAME\ntopology:\n  nodes: {a: {kind: native}, b: {kind: native}}\n  links:\n    \
    - {name: fast, type: overlay, streams: true, endpoints: [\"a:eth0\", \"b:eth0\"], subnets: [10.1.0.0/24]}\n    \
    - {name: plain, type: overlay, endpoints: [\"a:eth1\", \"b:eth1\"], subnets: [10.2.0.0/24]}\n";

/// The addresses of `b`, plain and with streams.
const ADDRESSES: [&str; 2] = ["10.2.0.2", "10.1.0.2"];

fn streams(bench: &Bench, lab: &str) -> u64 {
    let text = bench.latlab(&["streams", lab, "--json"]).good().out;
    let status: Value = serde_json::from_str(&text).unwrap();
    status["streams"].as_u64().unwrap()
}

/// Starts a server in `b` that listens at a port.
fn serve(bench: &Bench, lab: &str, port: u16, command: &[&str]) {
    let mut words = vec!["exec", "--detach", lab, "b", "--"];
    words.extend(command);
    bench.latlab(&words).good();
    let listens = || {
        let sockets = bench.exec(lab, "b", &["ss", "-ltnH"]).good().out;
        sockets.contains(&format!(":{port} "))
    };
    until("the server listens", listens);
}

/// Runs a client of `a` for both addresses: the plain one makes no stream, the other this number at least.
fn both(bench: &Bench, lab: &str, least: u64, client: impl Fn(&str) -> String) -> [String; 2] {
    let before = streams(bench, lab);
    let plain = client(ADDRESSES[0]);
    assert_eq!(streams(bench, lab), before);
    let fast = client(ADDRESSES[1]);
    let made = streams(bench, lab) - before;
    assert!(made >= least, "{made} streams: {fast}");
    [plain, fast]
}

fn directory(bench: &Bench, name: &str) -> PathBuf {
    let directory = bench.root().join(name);
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
    directory
}

#[test]
fn web_servers_databases_and_static_programs_run_unchanged() {
    enter(
        "web_servers_databases_and_static_programs_run_unchanged",
        |bench| {
            // The servers' users look into it.
            fs::set_permissions(bench.root(), fs::Permissions::from_mode(0o755)).unwrap();
            let lab = bench.deploy("programs", LAB);
            web(bench, &lab);
            database(bench, &lab);
            of_musl(bench, &lab);
            bench.latlab(&["destroy", &lab]).good();
        },
    );
}

fn web(bench: &Bench, lab: &str) {
    let directory = directory(bench, "web");
    let page: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    fs::write(directory.join("page"), &page).unwrap();
    let at = directory.display();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {at}/{kind};"));
    let config = format!(
        "daemon off; worker_processes 2; pid {at}/pid; error_log {at}/errors;\nevents {{}}\n\
         http {{ access_log off; {} server {{ listen 8080; root {at}; }} }}\n",
        temporary.join(" ")
    );
    let file = directory.join("nginx.conf");
    fs::write(&file, config).unwrap();
    serve(bench, lab, 8080, &["nginx", "-c", path(&file)]);
    let fetched = both(bench, lab, 1, |address| {
        let url = format!("http://{address}:8080/page");
        let line =
            format!("curl -sSf --max-time 60 -o fetched {url} && sha256sum fetched && rm fetched");
        let line = format!("cd {at}; {line}");
        bench.exec(lab, "a", &["sh", "-c", &line]).good().out
    });
    let digest = tool(&["sha256sum", path(&directory.join("page"))]);
    let digest = digest.split(' ').next().unwrap();
    assert!(
        fetched.iter().all(|told| told.starts_with(digest)),
        "{fetched:?}"
    );
    let loads = both(bench, lab, 16, |address| {
        let url = format!("http://{address}:8080/page");
        bench
            .exec(
                lab,
                "a",
                &["wrk", "-t2", "-c16", "-d2s", "--timeout", "30s", &url],
            )
            .good()
            .out
    });
    for load in loads {
        assert!(
            !load.contains("Socket errors") && !load.contains("Non-2xx"),
            "{load}"
        );
        assert!(!load.contains(" 0 requests"), "{load}");
    }
}

fn database(bench: &Bench, lab: &str) {
    let directory = directory(bench, "database");
    let at = path(&directory);
    // Debian has a directory for each version, and no link to its programs.
    let programs = fs::read_dir("/usr/lib/postgresql").unwrap().flatten();
    let programs = programs
        .map(|version| version.path().join("bin"))
        .max()
        .unwrap();
    let program = |name: &str| programs.join(name).display().to_string();
    // The server refuses to run as root.
    let user = [
        "setpriv",
        "--reuid",
        "postgres",
        "--regid",
        "postgres",
        "--clear-groups",
    ];
    let data = directory.join("data");
    let initdb = program("initdb");
    let make = [
        &user[..],
        &[&initdb, "-D", path(&data), "-A", "trust", "--no-sync"],
    ]
    .concat();
    bench.exec(lab, "b", &make).good();
    let clients = data.join("pg_hba.conf");
    let rules = fs::read_to_string(&clients).unwrap();
    fs::write(&clients, rules + "host all all 10.0.0.0/8 trust\n").unwrap();
    let postgres = program("postgres");
    let server = [
        &postgres,
        "-D",
        path(&data),
        "-h",
        "0.0.0.0",
        "-p",
        "5440",
        "-k",
        at,
        "-F",
    ];
    serve(bench, lab, 5440, &[&user[..], &server].concat());
    let sql = |address: &str, text: &str| {
        let psql = [
            "psql", "-h", address, "-p", "5440", "-U", "postgres", "-Atc", text,
        ];
        bench.exec(lab, "a", &psql).good().out
    };
    let pgbench = program("pgbench");
    let loads = both(bench, lab, 4, |address| {
        let to = [&pgbench[..], "-h", address, "-p", "5440", "-U", "postgres"];
        bench
            .exec(lab, "a", &[&to[..], &["-i", "-q", "postgres"]].concat())
            .good();
        let load = ["-c", "4", "-j", "2", "-t", "100", "postgres"];
        let told = bench.exec(lab, "a", &[&to[..], &load].concat()).good().out;
        // Each transaction adds one amount in four tables.
        let sums = "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history), \
                    (select sum(bbalance) from pgbench_branches) = (select sum(tbalance) from pgbench_tellers), \
                    (select count(*) from pgbench_history)";
        assert_eq!(sql(address, sums), "t|t|400\n");
        told
    });
    for load in loads {
        assert!(
            load.contains("number of transactions actually processed: 400/400"),
            "{load}"
        );
    }
}

/// Sends 20 MB, half of it in pieces of 7 bytes, and gets their sum back; serves with an argument less.
const SUM: &str = r#"
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static unsigned char buffer[1 << 16];

static int connected(const char *address)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(7070)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    at.sin_addr.s_addr = inet_addr(address);
    return connect(fd, (void *)&at, sizeof at) ? -1 : fd;
}

static void serve(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(7070)};
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)&at, sizeof at) || listen(listener, 8))
        exit(1);
    for (;;) {
        int fd = accept(listener, 0, 0);
        uint64_t sum = 0;
        ssize_t length;
        while ((length = read(fd, buffer, sizeof buffer)) > 0)
            for (ssize_t at = 0; at < length; at++)
                sum = sum * 31 + buffer[at];
        if (write(fd, &sum, sizeof sum) != sizeof sum)
            exit(1);
        close(fd);
    }
}

int main(int count, char **words)
{
    uint64_t sum = 0, told = 1;
    long left = 20000000;
    int fd;
    if (count < 2)
        serve();
    fd = connected(words[1]);
    for (long at = 0; at < (long)sizeof buffer; at++)
        buffer[at] = at * 7 + at / 251;
    while (left > 0) {
        long piece = left > 10000000 ? 7 : (long)sizeof buffer;
        ssize_t sent = write(fd, buffer, piece < left ? piece : left);
        if (sent <= 0)
            return 2;
        for (ssize_t at = 0; at < sent; at++)
            sum = sum * 31 + buffer[at];
        left -= sent;
    }
    shutdown(fd, SHUT_WR);
    if (read(fd, &told, sizeof told) != sizeof told || told != sum)
        return 3;
    puts("the same");
    return 0;
}
"#;

fn of_musl(bench: &Bench, lab: &str) {
    let directory = directory(bench, "musl");
    let (source, program) = (directory.join("sum.c"), directory.join("sum"));
    fs::write(&source, SUM).unwrap();
    tool(&[
        "musl-gcc",
        "-O2",
        "-static",
        "-o",
        path(&program),
        path(&source),
    ]);
    serve(bench, lab, 7070, &[path(&program)]);
    let told = both(bench, lab, 1, |address| {
        bench.exec(lab, "a", &[path(&program), address]).good().out
    });
    assert_eq!(told, ["the same\n"; 2]);
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}
