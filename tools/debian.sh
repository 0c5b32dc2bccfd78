#!/usr/bin/env bash
# debian.sh - the tree in a minimal Debian of its own, as a stranger would meet it: python3, gcc and git are there, and no
# environment. It needs root, and debootstrap, which it installs if it may.
#
#     tools/debian.sh bookworm                ./run demo and ./run test in Debian 12
#     tools/debian.sh sid tests/py -k wheel   with arguments for ./run test
#     tools/debian.sh sid --demo              ./run demo alone
#
# The last commit is cloned, nothing else. Everything lies in a folder that is removed at the end, 3 GB for the tests.
set -euo pipefail

suite=${1:-}
if [[ ! $suite =~ ^[a-z]+$ ]]; then
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2
    exit 2
fi
shift
if [[ $EUID -ne 0 ]]; then
    echo "debian.sh: making a Debian needs root: sudo tools/debian.sh $suite" >&2
    exit 2
fi
tree=$(git -C "$(dirname -- "$0")" rev-parse --show-toplevel)
command -v debootstrap >/dev/null || apt-get install -y --no-install-recommends debootstrap

root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root"' EXIT
debootstrap --include=python3,gcc,git,ca-certificates "$suite" "$root" >"$root.log" 2>&1 ||
    { tail -n 3 "$root.log" >&2 && exit 1; }
rm "$root.log"
git -c safe.directory="$tree" clone -q "$tree" "$root/pyddsi"
chown -R 0:0 "$root/pyddsi"
# What this machine needs to reach a package index, it needs in there, too; and a mirror may lag behind.
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/valid"

cat >"$root/go" <<'END'
set -e
cd /pyddsi
./run demo
[[ ${1:-} == --demo ]] || ./run test "$@"
END
# shellcheck disable=SC2016 # the inner shell is to see them
unshare --mount bash -c '
    root=$1
    shift
    mount -t proc proc "$root/proc"
    mount -t sysfs sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs shm "$root/dev/shm"
    exec chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        bash /go "$@"' bash "$root" "$@"
