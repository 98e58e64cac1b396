p=PLACE
[ -x "$p" ] && exit 0
[ "$(uname -m)" = ARCH ] || { echo "it is $(uname -m), and this program is for ARCH" >&2; exit 1; }
umask 077
mkdir -p "${p%/*}" && t=$(mktemp "$p.XXXXXX") || exit 1
cat >"$t" && [ "$(wc -c <"$t")" -eq SIZE ] && chmod 700 "$t" && mv -f "$t" "$p" && exit 0
rm -f "$t"
exit 1
