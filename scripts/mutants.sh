#!/usr/bin/env bash
# Changes the code a little, one place at a time, and tells which changes no test of that crate
# notices (cargo-mutants).
#
#   scripts/mutants.sh              what differs from the upstream branch, or from the last commit
#   scripts/mutants.sh BASE         what differs from that commit
#   scripts/mutants.sh --sample N   about N mutants, spread evenly over the pure crates and the store;
#                                   the same ones each time, while the code is the same
#   scripts/mutants.sh --table      what the last runs found, and nothing more
#
# CRATES='guard store' keeps to these crates. What follows goes to cargo-mutants. (With `--iterate` a
# sample is drawn from what was not noticed yet: it is another one.)
#
# Works in target/mutants/tree, a copy of the files that git knows with a target/ of its own, which
# stays: a crate's first mutant builds its dependencies, the next ones build that crate alone. What
# was missed is in target/mutants/CRATE/mutants.out/missed.txt. Exits 2 when something was missed.
set -eu
cd "$(dirname "$0")/.."

version=27.1.0
all_crates=(base model proto-miop proto-mqtt proto-im proto-xmpp hub broker guard presence verdict report store)
read -r -a crates <<<"${CRATES:-${all_crates[*]}}"
target="${CARGO_TARGET_DIR:-$PWD/target}"
mutants="$target/tools/bin/cargo-mutants"
work="$target/mutants"
tree="$work/tree"
unset CARGO_TARGET_DIR # the copy has its own

# One line a crate: mutants that were built, noticed (by a failure, or by a test that then hung),
# missed; unviable ones, which no compiler takes, are not counted as built.
table() {
    local out="$work/$1/mutants.out"
    [ -d "$out" ] || return 0
    printf '%s' "$1"
    for kind in caught timeout missed unviable; do
        printf ' %s' "$(cat "$out/$kind.txt" 2>/dev/null | wc -l)"
    done
    echo
}
print_table() {
    for crate in "${crates[@]}"; do table "$crate"; done | awk '
        function line(crate, caught, hung, missed, unviable,    built) {
            built = caught + hung + missed
            printf "%-12s %7d %8d %8d %8d %9d %8s\n", crate, built, caught, hung, missed, unviable,
                built ? sprintf("%.1f %%", 100 * (caught + hung) / built) : "-"
        }
        NR == 1 { printf "%-12s %7s %8s %8s %8s %9s %8s\n",
            "crate", "mutants", "caught", "hung", "missed", "unviable", "noticed" }
        { line($1, $2, $3, $4, $5); c += $2; h += $3; m += $4; u += $5 }
        END { if (NR) line("all", c, h, m, u); else print "no mutants" }'
}

if [ "${1:-}" = --table ]; then
    print_table
    exit 0
fi

if [ "$("$mutants" mutants --version 2>/dev/null)" != "cargo-mutants $version" ]; then
    cargo install -q cargo-mutants --version "$version" --locked --root "$target/tools"
fi

# The copy is brought up to date by content: a file that a stopped run left changed is mended, one
# that is as it was keeps its time, so that cargo builds nothing again.
mkdir -p "$tree"
exec 9>"$work/lock"
flock -n 9 || { echo "another run works in $tree"; exit 1; }
git ls-files -co --exclude-standard -z | while IFS= read -r -d '' file; do
    [ -f "$file" ] && printf '%s\n' "$file"
done | sort >"$work/files.new"
[ ! -f "$work/files" ] || comm -23 "$work/files" "$work/files.new" | while IFS= read -r file; do
    rm -f "$tree/$file"
done
while IFS= read -r file; do
    cmp -s "$file" "$tree/$file" && continue
    mkdir -p "$tree/$(dirname "$file")"
    cp "$file" "$tree/$file"
done <"$work/files.new"
mv "$work/files.new" "$work/files"

# A mutant that allocates for ever must not take the machine along.
ulimit -v $((10 * 1024 * 1024)) 2>/dev/null || true

words=(mutants --in-place --profile mutants --no-shuffle --cargo-test-arg=--tests
    --minimum-test-timeout 60)
if [ "${1:-}" = --sample ]; then
    among=()
    for crate in "${all_crates[@]}"; do among+=(--package "$crate"); done
    all="$(cd "$tree" && "$mutants" mutants "${among[@]}" --list | wc -l)"
    every=$((all / $2 > 0 ? all / $2 : 1))
    echo "one of $every of the $all mutants of the pure crates and the store"
    words+=(--shard "0/$every" --sharding round-robin)
    shift 2
else
    base="${1:-$(git rev-parse -q --verify '@{upstream}' || git rev-parse HEAD~1)}"
    [ $# -eq 0 ] || shift
    git diff "$base" -- '*.rs' >"$work/change.diff"
    words+=(--in-diff "$work/change.diff")
    changed=()
    for crate in "${crates[@]}"; do
        ! grep -q "^+++ b/[a-z]*/$crate/src/" "$work/change.diff" || changed+=("$crate")
    done
    [ ${#changed[@]} -gt 0 ] || { echo "nothing of the pure crates or the store differs"; exit 0; }
    crates=("${changed[@]}")
fi

status=0
for crate in "${crates[@]}"; do
    mkdir -p "$work/$crate"
    echo "== $crate"
    (cd "$tree" && "$mutants" "${words[@]}" --package "$crate" --output "$work/$crate" "$@") && code=0 ||
        code=$?
    case $code in
    0 | 3) ;; # a mutant that hangs a test is noticed
    2) status=2 ;;
    *) exit "$code" ;;
    esac
done
echo
print_table
exit $status
