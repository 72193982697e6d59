# Running processes and waiting notices of Outlast in front of the prompt.
__outlast_prompt() {
    # The exit code of the last command stays, for prompts that show it.
    local code=$? text
    text=$(outlast prompt 2>/dev/null) && [[ -n $text ]] && printf '[%s] ' "$text"
    return "$code"
}
# A shell that inherits an exported PS1 without this function has no such variable, and leaves the call out.
__outlast_prompt=on
declare +x __outlast_prompt
[[ $PS1 == *__outlast_prompt* ]] || PS1='${__outlast_prompt:+$(__outlast_prompt)}'$PS1
