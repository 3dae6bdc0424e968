//! Requests that are refused, and the limits of a page.

mod site;

use site::{Site, encoded};

#[test]
fn without_the_token_nothing_is_answered() {
    let site = Site::start();
    site.add("a", |_, _| {});
    for path in ["/", "/api/runs", "/report/a", "/nosuch"] {
        for cookie in ["", "latlab=x", &format!("latlab-{}=wrong", site.port())] {
            let answer = site.request("GET", path, &[("Cookie", cookie)], "");
            assert_eq!(answer.status, 401, "{path} {cookie}");
            assert_eq!(
                answer.json()["hint"],
                "open the address that `latlab serve` printed"
            );
        }
    }
    assert_eq!(site.request("GET", "/?token=wrong", &[], "").status, 401);
    assert_eq!(
        site.request("GET", &format!("/api/runs?token={}", site.token()), &[], "")
            .status,
        401
    );
}

#[test]
fn the_printed_address_leaves_a_cookie_and_no_token_in_the_address() {
    let site = Site::start();
    let answer = site.request("GET", &format!("/?token={}", site.token()), &[], "");
    assert_eq!(answer.status, 303);
    assert!(
        answer.headers.contains("\r\nlocation: /\r\n"),
        "{}",
        answer.headers
    );
    let cookie = format!(
        "set-cookie: latlab-{}={}; path=/; httponly; samesite=strict",
        site.port(),
        site.token()
    );
    assert!(answer.headers.contains(&cookie), "{}", answer.headers);
    assert_eq!(site.get("/").status, 200);
}

#[test]
fn a_foreign_name_of_the_address_is_refused() {
    let site = Site::start();
    for (host, status) in [
        (format!("127.0.0.1:{}", site.port()), 200),
        (format!("localhost:{}", site.port()), 200),
        // As behind `ssh -L 7071:127.0.0.1:7070`.
        ("localhost:1".to_owned(), 200),
        ("[::1]:1".to_owned(), 200),
        ("[::1]".to_owned(), 200),
        (format!("evil.example:{}", site.port()), 421),
        ("evil.example".to_owned(), 421),
        (format!("localhost.evil.example:{}", site.port()), 421),
        (format!("evil.example:{}@localhost", site.port()), 421),
        ("127.0.0.2:1".to_owned(), 421),
        (String::new(), 421),
    ] {
        let headers = [("Host", host.as_str()), ("Cookie", &site.cookie())];
        assert_eq!(
            site.request("GET", "/api/runs", &headers, "").status,
            status,
            "{host}"
        );
    }
}

#[test]
fn the_address_that_was_asked_for_is_a_name_of_it() {
    let site = Site::start_at([127, 0, 0, 2]);
    let answer = site.request("GET", &format!("/?token={}", site.token()), &[], "");
    assert_eq!(answer.status, 303);
    for (host, status) in [("127.0.0.2", 200), ("localhost", 200), ("127.0.0.3", 421)] {
        let host = format!("{host}:{}", site.port());
        let headers = [("Host", host.as_str()), ("Cookie", &site.cookie())];
        let answer = site.request("GET", "/api/runs", &headers, "");
        assert_eq!(answer.status, status, "{host}");
        if status == 421 {
            let error = "a request to this address must name localhost or 127.0.0.2 as its host";
            assert_eq!(answer.json()["error"], error);
        }
    }
}

#[test]
fn another_page_in_the_browser_cannot_write() {
    let site = Site::start();
    site.add("a", |_, _| {});
    site.list("");
    let body = r#"{"note": "x", "tags": [], "was": {"note": "", "tags": []}}"#;
    let cookie = site.cookie();
    let foreign = [
        ("Cookie", cookie.as_str()),
        ("Content-Type", "application/json"),
        ("Origin", "http://evil.example"),
    ];
    assert_eq!(
        site.request("PUT", "/api/note?run=a", &foreign, body)
            .status,
        403
    );
    let form = [("Cookie", cookie.as_str()), ("Content-Type", "text/plain")];
    assert_eq!(
        site.request("PUT", "/api/note?run=a", &form, body).status,
        403
    );
    assert!(!site.runs().join("a/annotation.json").exists());
    assert_eq!(
        site.request("POST", "/api/note?run=a", &foreign[..2], body)
            .status,
        405
    );
}

#[test]
fn no_path_leaves_the_directory() {
    let site = Site::start();
    site.add("a", |_, _| {});
    site.list("");
    let outside = site.measured("base", 1).root().to_owned();
    std::os::unix::fs::symlink(&outside, site.runs().join("link")).unwrap();
    std::fs::rename(
        site.runs().join("a/summary.json"),
        site.runs().join("../summary.json"),
    )
    .unwrap();
    std::os::unix::fs::symlink("../../summary.json", site.runs().join("a/summary.json")).unwrap();
    for path in [
        "../base",
        "..%2Fbase",
        "link",
        &encoded(outside.to_str().unwrap()),
        "a/../../base",
        "a/.",
        "",
    ] {
        for url in [format!("/api/run?run={path}"), format!("/report/{path}")] {
            assert_eq!(site.get(&url).status, 404, "{url}");
        }
    }
    let list = site.list_when("", |list| list["runs"][0]["problem"].is_string());
    assert_eq!(list["total"], 1);
    assert_eq!(site.get("/report/a").status, 500);
}

#[test]
fn a_page_runs_its_own_script_and_no_other() {
    let site = Site::start();
    site.add("a", |manifest, _| {
        manifest.study = "</script><script>alert(1)</script>".to_owned();
    });
    std::fs::write(
        site.runs().join("a/report.html"),
        "<script>alert(2)</script>",
    )
    .unwrap();
    site.list("");
    for path in ["/", "/report/a"] {
        let page = site.get(path);
        assert_eq!(page.status, 200);
        assert!(!page.body.contains("alert(1)</script>") && !page.body.contains("alert(2)"));
        // The page's own policy, before anything of a run.
        let policy = page
            .body
            .split("http-equiv=\"Content-Security-Policy\"")
            .nth(1)
            .unwrap();
        let policy = policy.split('>').next().unwrap();
        assert!(policy.contains("default-src 'none'"), "{policy}");
        let scripts = policy.split("script-src").nth(1).unwrap();
        let scripts = scripts.split(';').next().unwrap();
        assert!(
            scripts.contains("sha256-") && !scripts.contains("unsafe"),
            "{policy}"
        );
        assert!(page.headers.contains("x-frame-options: deny"));
    }
    let answer = site.get("/api/runs");
    assert!(
        answer.headers.contains("content-type: application/json")
            && answer.headers.contains("nosniff")
    );
}
