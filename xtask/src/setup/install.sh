# install: the packages named as arguments, as root, with none of their services started, now or at boot.
#
# Debian starts a service when its package arrives, unless policy-rc.d says no. If the machine has a policy-rc.d
# of its own (containers do, and say no), it stays; otherwise ours is there for as long as this takes.
set -eu
export DEBIAN_FRONTEND=noninteractive
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi

get() { apt-get install --yes --quiet --no-install-recommends "$@" </dev/null; }
if ! get "$@"; then
    echo "the package lists may be missing or old: apt-get update, then once more"
    apt-get update --quiet
    get "$@"
fi

if command -v systemctl >/dev/null; then
    for unit in redis-server mariadb etcd zookeeper; do
        case " $* " in *" $unit"*) systemctl disable --quiet "$unit" 2>/dev/null || true ;; esac
    done
fi
