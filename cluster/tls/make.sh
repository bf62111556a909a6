#!/usr/bin/env bash
# Makes an authority of your own, and one certificate and key for each name given: ./make.sh scheduler worker client
# Whoever holds a key of this authority can run code on the cluster: keep the files where only you can read them.
set -euo pipefail
cd "${TLS_DIR:-$(dirname "$0")}"
umask 077
if [ ! -e ca.key ]; then
  openssl req -x509 -newkey rsa:3072 -nodes -sha256 -days 825 -subj "/CN=scalable-bandits authority" \
    -keyout ca.key -out ca.pem
fi
for name in "$@"; do
  openssl req -newkey rsa:3072 -nodes -sha256 -subj "/CN=$name" -keyout "$name.key" -out "$name.csr"
  openssl x509 -req -sha256 -days 825 -in "$name.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -out "$name.pem"
  rm "$name.csr"
done
