//! An image that is made from packages of Debian or Ubuntu: `IMAGE.yaml`, or `image:` of a node.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::reader::Object;
use super::yaml::Yaml;
use crate::diagnostic::{Diagnostics, Spanned, shown};

/// The document. Its serialized form says what an image is made of, except for the bytes of files that it names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    pub distribution: Distribution,
    /// Name of the release: `bookworm`, `noble`.
    pub suite: String,
    /// Address of the archive; none: the distribution's own, with its updates.
    pub mirror: Option<String>,
    pub components: Vec<String>,
    /// Packages beside those that every system has.
    pub packages: Vec<String>,
    /// The kernel of VMs and machines that start with it: a flavour, or a package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Files by their paths in the image.
    pub files: BTreeMap<String, FileSource>,
    /// Lines for the image's shell, behind all else.
    pub run: Vec<String>,
}

/// Kernels that a distribution's packages stand for.
pub const KERNELS: [&str; 3] = ["standard", "cloud", "rt"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    Debian,
    Ubuntu,
}

/// The content of a file of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSource {
    Text(String),
    /// A path on this machine, from the directory of the document.
    From(String),
}

impl Distribution {
    /// The key of the document that names it.
    pub const KEYS: [&'static str; 2] = ["debian", "ubuntu"];

    /// All that its own installations have by default.
    fn components(self) -> &'static [&'static str] {
        match self {
            Distribution::Debian => &["main"],
            Distribution::Ubuntu => &["main", "universe"],
        }
    }

    /// The keys that its archive is signed with, and the package that has them.
    pub fn keyring(self) -> (&'static str, &'static str) {
        match self {
            Distribution::Debian => (
                "/usr/share/keyrings/debian-archive-keyring.gpg",
                "debian-archive-keyring",
            ),
            Distribution::Ubuntu => (
                "/usr/share/keyrings/ubuntu-archive-keyring.gpg",
                "ubuntu-keyring",
            ),
        }
    }
}

impl Recipe {
    /// Reads the document from its text. Errors: all mistakes.
    pub fn parse(text: &str) -> Result<Recipe, Diagnostics> {
        let yaml = Yaml::parse(text)?;
        let mut errors = Diagnostics::default();
        let recipe = Recipe::read(&yaml, "the image", &mut errors);
        errors.into_result(())?;
        recipe.ok_or_else(Diagnostics::default)
    }

    /// Reads it from a tree; `what` names it in messages.
    pub(super) fn read(yaml: &Yaml, what: &str, errors: &mut Diagnostics) -> Option<Recipe> {
        let mut o = Object::new(yaml, what, errors);
        let debian = o.get::<String>("debian", errors);
        let ubuntu = o.get::<String>("ubuntu", errors);
        let is_mapping = o.is_mapping();
        let mirror = o.get::<String>("mirror", errors);
        let components = o.list::<String>("components", errors);
        let packages = o.list::<String>("packages", errors);
        let kernel = o.get::<String>("kernel", errors);
        let run = o.list::<String>("run", errors);
        let files = o.take("files").map(|yaml| read_files(yaml, what, errors));
        o.finish(errors);
        let (distribution, suite) = match (debian, ubuntu) {
            (Some(suite), None) => (Distribution::Debian, suite),
            (None, Some(suite)) => (Distribution::Ubuntu, suite),
            _ => {
                if is_mapping {
                    let hint = "name one release, such as `debian: bookworm` or `ubuntu: noble`";
                    let message = format!("{what} needs one of `debian` and `ubuntu`");
                    errors.add(yaml.at, message, hint);
                }
                return None;
            }
        };
        check_words(&suite, &components, &packages, mirror.as_ref(), errors);
        if let Some(kernel) = &kernel {
            let hint = "`standard`, `cloud`, `rt`, or a package as `linux-image-6.1.0-37-amd64`";
            check(kernel, is_kernel, "is no kernel of an image", hint, errors);
        }
        let values = |list: Vec<Spanned<String>>| list.into_iter().map(|item| item.value).collect();
        let default = || {
            distribution
                .components()
                .iter()
                .map(|name| (*name).to_owned())
        };
        Some(Recipe {
            distribution,
            suite: suite.value,
            mirror: mirror.map(|mirror| mirror.value),
            components: match components.is_empty() {
                true => default().collect(),
                false => values(components),
            },
            packages: values(packages),
            kernel: kernel.map(|kernel| kernel.value),
            files: files.unwrap_or_default(),
            run: values(run),
        })
    }

    /// A few words about it, where a file would be named.
    #[must_use]
    pub fn title(&self) -> String {
        let suite = &self.suite;
        match self.packages.len() {
            0 => suite.clone(),
            1 => format!("{suite} with {}", self.packages[0]),
            count => format!("{suite} with {count} packages"),
        }
    }
}

/// Words of the document become words of commands.
fn check_words(
    suite: &Spanned<String>,
    components: &[Spanned<String>],
    packages: &[Spanned<String>],
    mirror: Option<&Spanned<String>>,
    errors: &mut Diagnostics,
) {
    check(
        suite,
        is_name,
        "is no name of a release",
        "such as `bookworm`",
        errors,
    );
    for component in components {
        check(
            component,
            is_name,
            "is no component of an archive",
            "such as `main`",
            errors,
        );
    }
    for package in packages {
        let hint = "such as `iperf3` or, of one version, `iperf3=3.12-1`";
        check(package, is_package, "is no package", hint, errors);
    }
    if let Some(mirror) = mirror {
        let hint = "such as `http://deb.debian.org/debian`";
        check(
            mirror,
            is_address,
            "is no address of an archive",
            hint,
            errors,
        );
    }
}

fn check(
    text: &Spanned<String>,
    is_good: fn(&str) -> bool,
    what: &str,
    hint: &str,
    errors: &mut Diagnostics,
) {
    if !is_good(text) {
        errors.add(text.at, format!("`{}` {what}", shown(text)), hint);
    }
}

/// Names of releases and components: `bookworm`, `non-free-firmware`.
fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-._/".contains(&byte))
}

/// A package's name (Debian Policy, 5.6.7), perhaps with an architecture, and a version or a release.
fn is_package(text: &str) -> bool {
    let (name, rest) = text.split_at(text.find(['=', '/', ':']).unwrap_or(text.len()));
    let is_first = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_name = name.len() >= 2
        && name.bytes().next().is_some_and(is_first)
        && name
            .bytes()
            .all(|byte| is_first(byte) || b"+-.".contains(&byte));
    is_name
        && rest.len() != 1
        && rest
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.~:=/".contains(&byte))
}

/// A flavour, or the package of a kernel in its only version: the archive decides which that is.
fn is_kernel(text: &str) -> bool {
    let is_of_kernel = text
        .strip_prefix("linux-image-")
        .is_some_and(|rest| !rest.is_empty());
    KERNELS.contains(&text) || is_of_kernel && is_package(text) && !text.contains(['=', '/', ':'])
}

fn is_address(text: &str) -> bool {
    let schemes = ["http://", "https://", "file:///"];
    let rest = schemes.iter().find_map(|scheme| text.strip_prefix(scheme));
    rest.is_some_and(|rest| !rest.is_empty())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"'\"`$\\[]".contains(&byte))
}

fn read_files(yaml: &Yaml, what: &str, errors: &mut Diagnostics) -> BTreeMap<String, FileSource> {
    let all = Object::new(yaml, format!("`files` of {what}"), errors);
    let mut files = BTreeMap::new();
    for (path, yaml) in all.entries() {
        if !is_path(path.value) {
            let message = format!("`{}` is no path of a file in the image", shown(path.value));
            errors.add(path.at, message, "from the root on, without `.` and `..`");
            continue;
        }
        let mut o = Object::new(yaml, format!("file `{}`", shown(path.value)), errors);
        let text = o.value("text", errors);
        let from = o.value("from", errors);
        let is_mapping = o.is_mapping();
        o.finish(errors);
        let source = match (text, from) {
            (Some(text), None) => FileSource::Text(text),
            (None, Some(from)) => FileSource::From(from),
            _ => {
                if is_mapping {
                    let message = format!(
                        "file `{}` needs one of `text` and `from`",
                        shown(path.value)
                    );
                    errors.add(
                        yaml.at,
                        message,
                        "for example `{text: \"hello\"}` or `{from: hello.txt}`",
                    );
                }
                continue;
            }
        };
        files.insert(path.value.to_owned(), source);
    }
    files
}

fn is_path(path: &str) -> bool {
    let parts = path.strip_prefix('/').map(|rest| rest.split('/'));
    parts.is_some_and(|mut parts| {
        parts.all(|part| !matches!(part, "" | "." | "..") && !part.contains('\0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_its_distributions_defaults() {
        let recipe = Recipe::parse(
            "debian: bookworm\npackages: [iperf3, 'redis-server=5:7.0.15-1~deb12u5', libc6:i386]\n\
             files: {/etc/motd: {text: hello}, /opt/tool: {from: bin/tool}}\nrun: [useradd tester]\n",
        )
        .unwrap();
        assert_eq!(recipe.mirror, None);
        assert_eq!(recipe.components, ["main"]);
        assert_eq!(recipe.packages.len(), 3);
        assert_eq!(
            recipe.files["/opt/tool"],
            FileSource::From("bin/tool".into())
        );
        assert_eq!(recipe.run, ["useradd tester"]);
        assert_eq!(recipe.kernel, None);
        assert_eq!(recipe.title(), "bookworm with 3 packages");
        let recipe =
            Recipe::parse("ubuntu: noble\npackages: iperf3\ncomponents: [main]\n").unwrap();
        assert_eq!(
            (recipe.packages, recipe.components),
            (vec!["iperf3".into()], vec!["main".into()])
        );
    }

    #[test]
    fn a_kernel_is_a_flavour_or_a_package() {
        let kernels = [
            "standard",
            "cloud",
            "rt",
            "linux-image-6.1.0-37-amd64",
            "linux-image-6.12.95+deb12-amd64",
            "linux-image-generic-hwe-22.04",
        ];
        for kernel in kernels {
            let text = format!("debian: bookworm\nkernel: {kernel}\n");
            assert_eq!(
                Recipe::parse(&text).unwrap().kernel.as_deref(),
                Some(kernel)
            );
        }
        for kernel in ["newest", "linux-image-", "linux-headers-amd64", "./vmlinuz"] {
            let text = format!("debian: bookworm\nkernel: {kernel}\n");
            let said = Recipe::parse(&text).unwrap_err().render("image.yaml");
            assert!(said.contains("is no kernel of an image"), "{said}");
        }
    }

    #[test]
    fn every_mistake_is_told_with_its_place() {
        let text = "debian: -x
packages: [Iperf3, 'a b', '--help', 'x=', good]
mirror: ftp://here
components: ['a b']
kernel: linux-image-6.1.0-37-amd64=6.1.140-1
files:
  etc/motd: {text: a}
  /etc/../x: {text: a}
  /etc/both: {text: a, from: b}
pakages: [x]
";
        let said = Recipe::parse(text).unwrap_err().render("image.yaml");
        for part in [
            "`-x` is no name of a release",
            "`Iperf3` is no package",
            "`a b` is no package",
            "`--help` is no package",
            "`x=` is no package",
            "`ftp://here` is no address",
            "`a b` is no component",
            "`linux-image-6.1.0-37-amd64=6.1.140-1` is no kernel of an image",
            "`etc/motd` is no path",
            "`/etc/../x` is no path",
            "file `/etc/both` needs one of",
            "unknown key `pakages`",
            "image.yaml:1:",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        for text in ["packages: [a]", "debian: bookworm\nubuntu: noble", "[]", ""] {
            let said = Recipe::parse(text).unwrap_err().render("image.yaml");
            assert!(said.contains("image"), "{text}: {said}");
        }
    }
}
