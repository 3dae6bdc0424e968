# `$1` rounds of tuning, deployments, trials and reverts in a guest. What fails is told, and the others are tried all the
# same. The last line is `done`.
export PATH=/latlab:$PATH NO_COLOR=1 LATLAB_STATE_DIR=/tmp/state LATLAB_RUN_DIR=/tmp/run
cd /tmp
partition=/sys/fs/cgroup/latlab.isolated
topology='{nodes: {a: {kind: native}, b: {kind: native}}, links: [{endpoints: ["a:eth0", "b:eth0"]}]}'
printf 'name: moved\ntuning: isolated\ntopology: %s\n' "$topology" > lab.yaml
printf 'name: movers\nlab: {name: moved, tuning: isolated, topology: %s}\n' "$topology" > study.yaml
printf 'measurements: [{name: rr, probe: rr, protocol: udp, from: a, to: b, duration: 100ms, warmup: 10ms}]\n' \
    >> study.yaml
printf 'replicates: 1\n' >> study.yaml

problem() {
    echo "problem in round $round: $*"
}

# Runs latlab, which must succeed.
try() {
    latlab "$@" > out 2>&1 && return
    problem "latlab $*: status $?"
    sed 's/^/    /' out
    false
}

in_force() {
    [ "$(cat $partition/cpuset.cpus)" = 1 ] || problem "$1: $partition has no CPU 1"
    case $(cat $partition/cpuset.cpus.partition) in isolated) ;; *)
        problem "$1: $(cat $partition/cpuset.cpus.partition)" ;; esac
}

gone() {
    [ ! -e $partition ] || problem "left after $1: $partition"
    [ ! -e state/tuning.json ] || problem "left after $1: its journal"
}

tuned=0 deployed=0 measured=0 reverted=0 round=0
while [ $round -lt "$1" ]; do
    round=$((round + 1))
    try tune apply --cpus 1 --knob cpuset=isolated --knob swappiness=1 && tuned=$((tuned + 1)) && in_force tuning
    sleep 0.5
    try tune verify && in_force 'after a moment'
    try tune revert && reverted=$((reverted + 1))
    gone revert
    try deploy lab.yaml && deployed=$((deployed + 1)) && in_force deployment
    try tune verify
    try exec moved b -- true
    try destroy moved && reverted=$((reverted + 1))
    gone destroy
    if try run study.yaml --runs /tmp/runs; then
        cat runs/*/trials/0001/trial.json | tr -d ' \n' > trial
        if grep -q '"name":"tuning","question":"[^"]*","value":0.0,"limit":0.0,"unit":"settings","passed":true' trial
        then measured=$((measured + 1)); else problem "its tuning is not in force"; cat trial; echo; fi
    fi
    rm -rf runs
    gone run
    echo "round $round ended"
done
echo "$tuned tunings, $deployed deployments, $measured trials, $reverted reverts"
for kind in moves/*; do echo "moves: $(wc -l < "$kind") ${kind#*/}"; done
echo done
