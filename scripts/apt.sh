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

# Installs packages: none of their services is started, and slapd makes no directory.
apt_install() {
    local policy=/usr/sbin/policy-rc.d made='' status
    if [ ! -e "$policy" ]; then
        made="$policy"
        printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"
    fi
    if command -v debconf-set-selections >/dev/null 2>&1; then
        echo 'slapd slapd/no_configuration boolean true' | debconf-set-selections
    fi
    apt_get install -y -qq --no-install-recommends "$@"
    status=$?
    [ -z "$made" ] || rm -f "$made"
    return "$status"
}
