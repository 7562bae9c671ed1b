# Sourced by whatever installs packages: apt-get that waits for whoever holds its locks.
#
# A fresh machine updates itself in its first minutes, and holds them meanwhile. DPkg::Lock::Timeout
# waits for the one of dpkg alone; those of the lists and of the archives are tried again here.

# Seconds in all.
APT_WAIT_S="${APT_WAIT_S:-900}"

apt_get() {
    local errors status until=$((SECONDS + APT_WAIT_S))
    export DEBIAN_FRONTEND=noninteractive
    errors="$(mktemp)"
    while :; do
        apt-get -o DPkg::Lock::Timeout="$APT_WAIT_S" "$@" 2>"$errors"
        status=$?
        if [ "$status" -eq 0 ] || [ "$SECONDS" -ge "$until" ] ||
            ! grep -qE 'Could not get lock|Unable to (acquire|lock)' "$errors"; then
            break
        fi
        sleep "${APT_PAUSE_S:-3}"
    done
    cat "$errors" >&2
    rm -f "$errors"
    return "$status"
}
