#!/bin/sh
# Sees to it that the tests have a redis-server or valkey-server: finds one, or installs one with the
# platform's package manager and says so. Prints the command and fails where it may not install.
set -eu

if [ -n "${SLUICE_SERVERS:-}" ]; then
    echo "servers: $SLUICE_SERVERS (SLUICE_SERVERS)"
    exit 0
fi
for name in redis-server valkey-server; do
    if path=$(command -v "$name"); then
        echo "server: $path ($("$path" --version | tr ' ' '\n' | sed -n 's/^v=//p'))"
        exit 0
    fi
done

if command -v apt-get >/dev/null; then
    install="apt-get install -y redis-server" update="apt-get update"
elif command -v dnf >/dev/null; then
    install="dnf install -y valkey" update=true
elif command -v yum >/dev/null; then
    install="yum install -y redis" update=true
elif command -v apk >/dev/null; then
    install="apk add redis" update=true
elif command -v pacman >/dev/null; then
    install="pacman -S --noconfirm valkey" update=true
elif command -v zypper >/dev/null; then
    install="zypper install -y redis" update=true
elif command -v brew >/dev/null; then
    install="brew install redis" update=true
else
    echo "no redis-server or valkey-server on PATH, and no package manager that this script knows." >&2
    echo "Install one, or name it: SLUICE_SERVERS=/path/to/redis-server make test" >&2
    exit 1
fi

sudo=
if [ "$(id -u)" -ne 0 ] && [ "${install%% *}" != brew ]; then
    sudo="sudo -n "
    if ! sudo -n true 2>/dev/null; then
        echo "no redis-server or valkey-server on PATH, and no right to install one. Run:" >&2
        echo "    sudo $install" >&2
        exit 1
    fi
fi
echo "no redis-server or valkey-server on PATH: installing one with: $sudo$install"
$sudo$update >/dev/null
if ! DEBIAN_FRONTEND=noninteractive $sudo$install >/dev/null; then
    echo "that failed. Install a server by hand, or name one: SLUICE_SERVERS=/path/to/redis-server make test" >&2
    exit 1
fi
command -v redis-server valkey-server
