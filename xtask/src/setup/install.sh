# install: installs the packages named as arguments, as root. Their services are not started, now or at boot.
#
# Debian starts a package's service on installation, unless policy-rc.d forbids it. If the machine has its own
# policy-rc.d (containers do, and it forbids services), it stays; otherwise ours is there during the installation.
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
    echo "the package lists may be missing or old: running apt-get update, then trying again"
    apt-get update --quiet
    get "$@"
fi

if command -v systemctl >/dev/null; then
    for unit in redis-server mariadb etcd zookeeper; do
        case " $* " in *" $unit"*) systemctl disable --quiet "$unit" 2>/dev/null || true ;; esac
    done
fi
