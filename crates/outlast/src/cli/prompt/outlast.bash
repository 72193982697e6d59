# Running processes and waiting notices of Outlast in front of the prompt.
__outlast_prompt() {
    # The exit code of the last command stays, for prompts that show it.
    local code=$? text
    text=$(outlast prompt 2>/dev/null) && [[ -n $text ]] && printf '[%s] ' "$text"
    return "$code"
}
[[ $PS1 == *__outlast_prompt* ]] || PS1='$(__outlast_prompt)'$PS1
