# Starts a service manager on version 2, and what moves the groups that it manages. Each line of /tmp/moves/NAME is one
# move.
set -e
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup
mkdir -p /tmp/units /tmp/moves /tmp/said

# Services that start anew whenever they end, each in a slice of its own.
for n in 1 2 3; do
    printf '%s\n' '[Unit]' DefaultDependencies=no StartLimitIntervalSec=0 '[Service]' \
        "ExecStart=/bin/sh -c 'echo >> /tmp/moves/services; sleep 0.$n'" \
        Restart=always RestartSec=1s Slice=movers-$n.slice > /tmp/units/mover$n.service
done
# One that moves between groups of its own, which are delegated to it.
cat > /tmp/units/delegate.sh <<'END'
top=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
while :; do
    for group in a b; do
        mkdir -p "$top/$group"
        echo $$ > "$top/$group/cgroup.procs" && echo >> /tmp/moves/own-groups
        sleep 0.3
        [ "$group" = a ] || rmdir "$top/a"
    done
done
END
printf '%s\n' '[Unit]' DefaultDependencies=no StartLimitIntervalSec=0 '[Service]' \
    'ExecStart=/bin/sh /tmp/units/delegate.sh' Restart=always RestartSec=200ms 'Delegate=pids memory' \
    Slice=movers-own.slice > /tmp/units/delegate.service
printf '%s\n' '[Unit]' DefaultDependencies=no 'Wants=mover1.service mover2.service mover3.service delegate.service' \
    > /tmp/units/default.target

# Without the generators, of which each `daemon-reload` runs a dozen.
setsid unshare --pid --mount --fork --mount-proc env -i PATH="$PATH" container=lxc SYSTEMD_UNIT_PATH=/tmp/units \
    SYSTEMD_GENERATOR_PATH=/tmp/none SYSTEMD_ENVIRONMENT_GENERATOR_PATH=/tmp/none \
    /lib/systemd/systemd --system --log-target=console < /dev/null > /tmp/systemd.log 2>&1 &
for second in $(seq 60); do
    [ ! -d /sys/fs/cgroup/movers.slice ] || break
    sleep 1
done
manager=$(pgrep -o -f '^/lib/systemd/systemd --system') || { cat /tmp/systemd.log; echo it manages nothing; exit 3; }

# Orders to it, again and again.
ask() { # NAME PAUSE COMMAND
    nsenter -t "$manager" --mount --pid /bin/sh -c \
        "while :; do { $3; } > /tmp/said/$1 2>&1 && echo >> /tmp/moves/$1; sleep $2; done" < /dev/null > /dev/null 2>&1 &
}
run='systemd-run --quiet --collect --property=DefaultDependencies=no'
ask reloads 2 'systemctl daemon-reload'
ask transient 1 "$run --slice=movers-transient.slice --property=AllowedCPUs=0-1 sleep 0.1"
ask scopes 1.5 "$run --scope --slice=user-1000.slice sleep 0.1"
ask users 2 "$run --uid=65534 --slice=user-65534.slice sleep 0.2"
# At the end of each turn no unit has CPUs of its own, and the manager takes `cpuset` from the root. A group beside the
# partition gets none of its CPUs: that would end the partition (cpuset.cpus.partition in cgroup-v2.rst).
ask properties 2 'for list in 0-1 0 ""; do
        systemctl set-property --runtime movers-2.slice "AllowedCPUs=$list"
        systemctl set-property --runtime movers.slice "AllowedCPUs=${list#0-1}"
    done'
