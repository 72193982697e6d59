#compdef outlast
# Completion of outlast for zsh. The program itself knows what may follow.
_outlast() {
    local line value
    local -a values shown
    for line in "${(@f)$("${words[1]/#\~/$HOME}" __complete --index $((CURRENT - 1)) -- "${(@)words[1,CURRENT]}" 2>/dev/null)}"; do
        value=${line%%$'\t'*}
        [[ -n $value ]] || continue
        values+=("$value")
        shown+=("$value  ${line#*$'\t'}")
    done
    if ((${#values})); then
        compadd -l -V outlast -d shown -- "${(@)values}"
    else
        _files
    fi
}
if [[ $funcstack[1] == _outlast ]]; then
    _outlast "$@"
else
    compdef _outlast outlast
fi
