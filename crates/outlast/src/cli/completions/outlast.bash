# Completion of outlast for bash. The program itself knows what may follow.
_outlast() {
    local line=${COMP_LINE:0:COMP_POINT} value words prefix
    # Words as the program will see them: bash also breaks them at colons and equals signs.
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    prefix=${words[-1]%"$2"}
    COMPREPLY=()
    while IFS=$'\t' read -r value _; do
        printf -v value '%q' "${value#"$prefix"}"
        COMPREPLY+=("$value")
    done < <("${words[0]/#\~/$HOME}" __complete --index $((${#words[@]} - 1)) -- "${words[@]}" 2>/dev/null)
}
if ((BASH_VERSINFO[0] > 4 || (BASH_VERSINFO[0] == 4 && BASH_VERSINFO[1] >= 4))); then
    complete -o bashdefault -o default -o nosort -F _outlast outlast
else
    complete -o bashdefault -o default -F _outlast outlast
fi
