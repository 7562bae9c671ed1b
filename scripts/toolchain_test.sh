#!/usr/bin/env bash
# Tests scripts/toolchain.sh with a PATH that holds nothing but what each case puts there.
# Last line: 'N passed, N failed'.
set -u
cd "$(dirname "$0")/.."

shell="$(command -v sh)"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
passed=0
failed=0

# check NAME WANTED_STATUS WANTED_WORDS TOOL...: a tool is 'cc', 'rustup' or 'cargo=VERSION LINE'.
check() {
    local name="$1" status_wanted="$2" words_wanted="$3" tool output status
    shift 3
    rm -rf "$folder/bin" && mkdir "$folder/bin"
    for tool in "$@"; do
        printf '#!%s\necho "%s"\n' "$shell" "${tool#*=}" >"$folder/bin/${tool%%=*}"
        chmod +x "$folder/bin/${tool%%=*}"
    done
    output="$(HOME="$folder/home" PATH="$folder/bin" "$shell" scripts/toolchain.sh 2>&1)"
    status=$?
    if [ "$status" -eq "$status_wanted" ] && [ "$(printf '%s' "$output" | wc -l)" -eq 0 ] &&
        [[ "$output" == *"$words_wanted"* ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "toolchain.sh, $name: status $status, said: $output"
    fi
}

new="cargo=cargo 1.95.0 (f2d3ce0bd 2026-03-21)"
old="cargo=cargo 1.85.1 (d73d2caf9 2024-12-31)"
check "the oldest that will do" 0 "" "$new" cc
check "a newer minor" 0 "" "cargo=cargo 1.100.0 (0123456789 2026-12-01)" cc
check "a newer major" 0 "" "cargo=cargo 2.0.0" cc
check "a nightly" 0 "" "cargo=cargo 1.97.0-nightly (0123456789 2026-05-01)" cc
check "no Rust" 1 "none was found: install rustup" cc
check "an old Rust" 1 "this is 1.85.1: install rustup" "$old" cc
check "an old Rust by rustup" 1 "run 'rustup update stable'" "$old" rustup cc
check "an old nightly" 1 "this is 1.94.0-nightly" "cargo=cargo 1.94.0-nightly (0 2026-01-01)" cc
check "a cargo that does not start" 1 "run 'rustup default stable'" "cargo=" rustup cc
check "no C compiler" 1 "install gcc" "$new"
mkdir -p "$folder/home/.cargo/bin"
cp "$shell" "$folder/home/.cargo/bin/cargo"
check "Rust outside PATH" 1 ".cargo/env" cc

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
