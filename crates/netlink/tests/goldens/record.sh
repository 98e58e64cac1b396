#!/bin/sh
# Records what the real tc sends for each step of cases.toml, as hexadecimal, into recorded.txt.
#
#   cases.toml ──tc_readback --commands lo──► tc commands ──strace──► recorded.txt
#
# Runs in a network namespace of its own, on its loopback (interface 1). The kernel may refuse what it lacks: tc has sent
# the message by then. Needs strace, iproute2, and root or a user namespace.
set -eu
cd "$(dirname "$0")"
out=$(pwd)/recorded.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cargo run -q -p quell-netlink --example tc_readback -- --commands lo >"$work/commands"

cat >"$work/inside" <<'INSIDE'
work=$1
tab=$(printf '\t')
while IFS="$tab" read -r name command; do
    rm -f "$work/trace"
    eval "strace -qq -o $work/trace -e trace=sendmsg -e write=all $command" >"$work/said" 2>&1 || true
    # The last message is the request; those before it asked for the interface's number.
    hex=$(awk '/ bytes in buffer /{hex = ""} /^ \| /{
        line = substr($0, 11, 49); gsub(/ /, "", line); hex = hex line
    } END {print hex}' "$work/trace")
    if [ -z "$hex" ]; then
        echo "nothing sent for: $command" >&2
        cat "$work/said" >&2
        exit 1
    fi
    printf '# %s\n%s %s\n' "$command" "$name" "$hex"
done <"$work/commands"
INSIDE
unshare=unshare
[ "$(id -u)" = 0 ] || unshare="unshare -Ur"
{
    echo "# Recorded from $(tc -V) by record.sh; name/step and the whole netlink message."
    $unshare -n sh "$work/inside" "$work"
} >"$work/recorded"
mv "$work/recorded" "$out"
echo "$(grep -vc '^#' "$out") messages in $out"
