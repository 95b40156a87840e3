#!/bin/sh
# Installs servers of these names from Debian where that can be done; else says that their tests are skipped.
PATH=$PATH:/usr/sbin:/usr/local/sbin
updated=
for server; do
    command -v "$server" > /dev/null && continue
    if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
        [ -n "$updated" ] || apt-get update -qq > /dev/null 2>&1
        updated=yes
        # a runlevel of one: nothing is started
        RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$server" > /dev/null 2>&1
    fi
    command -v "$server" > /dev/null || echo "$server is not there and cannot be installed: its tests are skipped"
done
