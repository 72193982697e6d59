#!/usr/bin/env bash
# Captures the screens in this directory: real processes in a throwaway home, with stand-ins for the programs they call.
# Needs tmux. Build first: cargo build -p outlast
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${1:-$here/../../target/debug}
# As long as /home/me, which is what the captures show.
export HOME=/tmp/hme
mkdir "$HOME"
export OUTLAST_HOME=$HOME/.local/state/outlast XDG_RUNTIME_DIR=$HOME/run TERM=xterm-256color LANG=C.UTF-8
unset OUTLAST_SESSION OUTLAST_TASK NO_COLOR
mkdir -p "$HOME/bin" "$XDG_RUNTIME_DIR" "$HOME/shop" "$HOME/.config/outlast"
chmod 700 "$XDG_RUNTIME_DIR"
cp "$bin/outlast" "$bin/outlast-keeper" "$HOME/bin"
export PATH=$HOME/bin:$PATH
windows=0
tmux=()
close_window() { if ((windows)); then "${tmux[@]}" kill-server 2>"$HOME/ignored" || true; fi; }
clean_up() {
    close_window
    outlast kill --all --yes --grace 0 >"$HOME/ignored" 2>&1 || true
    outlast engine stop >"$HOME/ignored" 2>&1 || true
    rm -r "$HOME"
}
trap clean_up EXIT

stand_in() { printf '#!/bin/bash\n%s\n' "$2" >"$HOME/bin/$1" && chmod +x "$HOME/bin/$1"; }
stand_in npm 'paths=(/ /src/main.tsx /api/items /api/session /src/Cart.tsx /api/cart)
while :; do echo "$(date +%T) GET ${paths[RANDOM % 6]} 200 in $((RANDOM % 40 + 2)) ms"; sleep 0.3; done'
stand_in cargo 'case $1 in
build) for c in syn serde tokio hyper rustls ring regex clap; do echo "   Compiling $c v1.0.$((RANDOM % 99))"; sleep 0.2; done
       while :; do :; done ;;
test) for i in {1..86}; do echo "test store::segments::case_$i ... ok"; sleep 0.2; done ;;
esac'
stand_in pytest 'echo "1 failed, 85 passed in 0.41s"; exit 1'
stand_in psql 'read -rp "shop=# " _'
stand_in make 'echo "build is up to date"'

cd "$HOME/shop"
run() { outlast run -q "$@" >"$HOME/ignored" 2>&1; }
run --name dev-server --session chat:42 npm run dev
run --session chat:42 --pty psql shop
run --name tests --session chat:57 --notify cargo test --workspace
run --session ci make release
run --session ci --notify pytest -q --maxfail=3 tests/integration
run --name build --session ci cargo build --release
run --name worker --session ci 'sleep 600 & echo started'
sleep 4

# Runs a program in a window of this size. `text` and `colours` write what it shows.
window() {
    close_window
    # A server that is ending would take the next window with it.
    tmux=(tmux -u -S "$HOME/tmux.$((++windows))" -f /dev/null)
    "${tmux[@]}" new-session -d -x "$1" -y "$2" "${@:3}"
    sleep 3
}
text() { "${tmux[@]}" capture-pane -p | sed -E -e "s#$HOME#/home/me#g" -e 's/(kernel +[0-9.]+)-[^: ]*/\1/' >"$here/$1"; }
colours() { "${tmux[@]}" capture-pane -p -e >"$here/$1"; }
window 80 24 outlast top --all && text top.txt && colours top.ansi
"${tmux[@]}" send-keys -l '/dev' && "${tmux[@]}" send-keys Enter Enter && sleep 2 && text top-open.txt && colours top-open.ansi
window 120 24 outlast top --all && text top-120.txt
call() { echo "\$ $*"; "$@"; }
export -f call
for columns in 80 120; do
    window $columns 60 bash -c 'call outlast list --all; sleep 60' && text list-$columns.txt
    printf '[retention]\nday = 3\n' >"$HOME/.config/outlast/config.toml"
    window $columns 60 bash -c 'call outlast doctor; sleep 60' && sleep 5 && text doctor-$columns.txt
    rm "$HOME/.config/outlast/config.toml"
done
printf 'web: npm run dev\nworker: cargo test\nonce: pytest -q\n' >Procfile
window 80 24 bash -c 'call outlast up' && text up.txt && colours up.ansi
"${tmux[@]}" send-keys C-c
sed -i -e :a -e '/^\n*$/{$d;N;ba' -e '}' "$here"/list-*.txt "$here"/doctor-*.txt "$here"/up.txt
