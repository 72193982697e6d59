# Dotfiles like those of a user with a version manager, without one: the same kinds of work (functions, a search through directories, subshells, a
# few programs) for about a tenth of a second, which is what such a manager costs at each start of a shell. The benchmarks put this into a HOME of their own.

bench_manager_dir="$HOME/.manager"
export BENCH_MANAGER_DIR="$bench_manager_dir"

bench_version_of() {
    local line="$1" version
    version="$(printf '%s\n' "$line" | sed -e 's/^v//' -e 's/-.*$//')"
    printf '%s\n' "$version"
}

bench_find_up() {
    local at="$PWD"
    while [ -n "$at" ] && [ ! -e "$at/$1" ]; do at="${at%/*}"; done
    printf '%s\n' "$at"
}

bench_resolve() {
    local alias newest=""
    for alias in default stable node iojs lts; do
        newest="$(bench_version_of "v20.$(printf '%s' "$alias" | wc -c).0-$alias")"
        bench_find_up ".manager-version" >/dev/null
    done
    printf '%s\n' "$newest"
}

for bench_try in 1 2 3 4 5; do
    BENCH_MANAGER_VERSION="$(bench_resolve)"
done
export BENCH_MANAGER_VERSION
case ":$PATH:" in
    *":$bench_manager_dir/bin:"*) ;;
    *) PATH="$bench_manager_dir/bin:$PATH" ;;
esac
export PATH
alias ll='ls -l'
unset bench_try bench_manager_dir
