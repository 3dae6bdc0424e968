//! A start of what is installed on a host, whose boot loader is told by ssh: a drop-in of GRUB's, and a reboot.
//!
//! The drop-in is on the host, under a name of its own: it is the record of what was asked for, and is found by the next
//! `boot` whatever became of this one.

use std::cell::OnceCell;
use std::time::Duration;

use latlab_bmc::{Controller, Power};
use latlab_model::boot::{drop_in_of, words_of_drop_in};
use latlab_model::diagnostic::{plain, shown};
use latlab_model::spec::ManagedHost;

use super::answer;
use crate::bmc::this_machine;
use crate::failure::Failure;
use crate::reboot::{self, as_root};
use crate::signals;

/// Prints the drop-in that was there. Its new text is standard input; none removes it. What
/// cannot be put into force is taken back at once.
const CHANGE: &str = r#"set -e
file=/etc/default/grub.d/90-latlab.cfg
command -v update-grub >/dev/null || { echo "there is no update-grub" >&2; exit 3; }
former=
if [ -e $file ]; then
    head -n 1 $file | grep -q '^#.*latlab' || { echo "$file is not latlab's" >&2; exit 3; }
    former=$(cat $file)
fi
text=$(cat)
put() {
    if [ -z "$1" ]; then rm -f $file; return; fi
    mkdir -p ${file%/*}
    printf '%s\n' "$1" >$file.new
    mv $file.new $file
}
put "$text"
if ! said=$(update-grub 2>&1); then
    put "$former"
    echo "$said" | tail -n 1 >&2
    exit 3
fi
sync
printf '%s\n' "$former"
"#;

/// Reboots the host with these parameters beside its own and without those of before, and returns its command line.
pub(super) fn boot(
    host: &ManagedHost,
    controller: &dyn Controller,
    parameters: &[String],
    limit: Duration,
) -> Result<String, Failure> {
    let name = host.name.value.as_str();
    let Some(destination) = &host.ssh else {
        let message = format!("host `{name}` has no `live:` system and no `ssh:`");
        return Err(Failure::new(
            message,
            "one of both is needed: `latlab image IMAGE --live DIR` makes a system",
        ));
    };
    this_machine::refuse(host, controller)?;
    let text = match parameters {
        [] => String::new(),
        words => drop_in_of(words),
    };
    let stop = signals::stop_flag()?;
    let former = as_root(destination, CHANGE, &text)
        .map_err(|reason| refused(host, controller, "change the boot parameters", &reason))?;
    let former = words_of_drop_in(&former);
    let line = OnceCell::new();
    // One that answers a moment after its start may be away in the next.
    let tells_line = || match reboot::answer(destination, "cat /proc/cmdline") {
        Some(answer) => line.set(answer).is_ok(),
        None => false,
    };
    reboot::reboot(destination, limit, &stop, tells_line).map_err(|reason| {
        let message = format!("host `{name}` does not boot: {}", shown(&plain(&reason)));
        let hint = format!(
            "`latlab host {name} console` shows where it hangs; `power cycle` does not ask it"
        );
        Failure::new(message, hint)
    })?;
    let line = line.into_inner().unwrap_or_default();
    let has: Vec<&str> = line.split_whitespace().collect();
    let is_there = |word: &&String| has.contains(&word.as_str());
    let missing: Vec<String> = parameters
        .iter()
        .filter(|w| !is_there(w))
        .cloned()
        .collect();
    let gone = former.iter().filter(|word| !parameters.contains(word));
    let foreign: Vec<String> = gone.filter(is_there).cloned().collect();
    match missing.is_empty() && foreign.is_empty() {
        true => Ok(line.trim().to_owned()),
        false => Err(answer::differs(name, &missing, &foreign)),
    }
}

fn refused(host: &ManagedHost, controller: &dyn Controller, action: &str, reason: &str) -> Failure {
    let reason = shown(&plain(reason));
    let name = host.name.value.as_str();
    let hint = match controller.power() {
        Ok(Power::Off) => format!("it is off: `latlab host {name} power on`"),
        Ok(Power::On) => "its root must have update-grub, and ssh must reach it".to_owned(),
        Err(error) => format!("{error}"),
    };
    Failure::new(format!("host `{name}` cannot {action}: {reason}"), hint)
}
