# Makes the manual page attnd(1) of what `attnd --help` prints, so that both say the same.
#   attnd --help | awk -v version=0.1.0 -v date=2026-01-31 -v config=/etc/attnd/attnd.json -f man.awk

# Returns the text with what roff would interpret escaped. "-" stays the character that is typed.
function plain(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    sub(/^[.']/, "\\\\&&", text)
    return text
}

# Prints the text in lines of at most 80 bytes.
function fill(text,   word, words, line, i) {
    words = split(text, word, " ")
    line = word[1]
    for (i = 2; i <= words; i++) {
        if (length(plain(line " " word[i])) > 80) {
            print plain(line)
            line = word[i]
        } else {
            line = line " " word[i]
        }
    }
    print plain(line)
}

# Prints an entry of a list. The name is bold, but the word VALUE that stands for a value is italic.
function item(name, text) {
    name = plain(name)
    sub(/ [A-Z]+$/, "\\fR\\fI&", name)
    print ".TP\n\\fB" name "\\fR"
    fill(text)
}

BEGIN {
    print ".TH ATTND 1 " date " \"attnd " version "\" \"User Commands\""
}
/^attnd: / {
    text = substr($0, 8)
    sub(/\.$/, "", text)
    print ".SH NAME\nattnd \\- " plain(text)
    next
}
/^usage: / {
    print ".SH SYNOPSIS\n.B attnd"
    fill(substr($0, 14))
    print ".br\n.B attnd\nCOMMAND [options]\n.SH COMMANDS"
    fill("Without a command it serves, and ends on SIGTERM. \"attnd COMMAND --help\" lists the options of a command.")
    part = "commands"
    next
}
part == "commands" && /^  attnd / {
    item("attnd " $2, substr($0, 30))
    next
}
part == "commands" && /^$/ {
    print ".SH OPTIONS"
    part = "options"
    next
}
part == "options" && /^  -/ {
    name = substr($0, 3, 26)
    sub(/ +$/, "", name)
    item(name, substr($0, 30))
    next
}
/^Settings\. / {
    print ".SH SETTINGS"
    fill(substr($0, 11))
    part = "settings"
    next
}
part == "settings" && /^  --/ {
    name = substr($0, 3)
    next
}
part == "settings" && /^        / {
    item(name, substr($0, 9))
    next
}
/^exit codes:/ {
    print ".SH EXIT STATUS"
    part = "exit"
    next
}
part == "exit" && /^  [0-9]/ {
    item($1, substr($0, 6))
    next
}
/^$/ { next }
{
    print "man.awk: cannot place: " $0 > "/dev/stderr"
    failed = 1
}
END {
    print ".SH SIGNALS"
    item("SIGTERM, SIGINT", "finish the accepted requests and end; the second one ends at once")
    item("SIGHUP", "read keys, certificates and models again")
    print ".SH FILES"
    item(config, "settings of the service that systemd starts")
    item("/var/lib/attnd", "its runs, models and jobs")
    exit failed
}
