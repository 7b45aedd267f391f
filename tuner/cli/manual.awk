# Turns a manual's Markdown into roff.  manual.c writes the Markdown of moetune(1); people write the others.
# tests/program/test_manuals has an example of each notation.
#   awk -v version=0.9.0 -f tuner/cli/manual.awk tuner/cli/moetune-tables.7.md >moetune-tables.7
# -v file=NAME: the name of standard input in messages.
#
# It knows the notations of our manuals, and refuses others with one message:
#   # NAME(SECTION) - TEXT      the first line
#   ## Heading, ### Heading     man writes the former in capitals
#   paragraphs                  a sentence begins on a line of its own
#   - TEXT, 1. TEXT             items; lines indented as far as TEXT belong to the item, also after an empty line
#   - TAG\                      a definition: its text begins on the next line
#   ``` ... ```                 code; a synopsis is set as libraries' manuals do
#   | A | B |                   tables; `---:` aligns to the right
#   `code` **bold** *italic* [page(7)](page.7.md) [file](path) [text](https://...) \*
#   <!-- for tests and authors; not printed -->
function refuse(what)
{
    printf "%s:%d: %s\n", (file == "" ? FILENAME : file), (from ? from : FNR), what >"/dev/stderr"
    failed = 1
    exit 1
}

# Refuses something on the current line; refuse() names the line on which the paragraph began.
function refuse_here(what)
{
    from = 0
    refuse(what)
}

# Escapes the characters of code and names that roff or a terminal would change.
function code(s)
{
    gsub(/\\/, "\\e", s)
    gsub(/-/, "\\-", s)
    gsub(/'/, "\\(aq", s)
    gsub(/`/, "\\(ga", s)
    gsub(/\^/, "\\(ha", s)
    gsub(/~/, "\\(ti", s)
    return s
}

# Escapes prose.  A hyphen between letters stays a hyphen, at which a line may end.
function prose(s)
{
    gsub(/\\/, "\\e", s)
    gsub(/-/, "\\-", s)
    while (match(s, /[A-Za-z]\\-[A-Za-z]/))
        s = substr(s, 1, RSTART) substr(s, RSTART + 2)
    gsub(/\^/, "\\(ha", s)
    gsub(/~/, "\\(ti", s)
    return s
}

# Returns the text before END, which must be there; `rest` is the text behind it.
function until(s, end, what,    at)
{
    at = index(s, end)
    if (at < 2)
        refuse(what " does not end")
    rest = substr(s, at + length(end))
    return substr(s, 1, at - 1)
}

function set_in(font, s)
{
    if (s ~ /[`*\[]/)
        refuse("\"" s "\": one font in another")
    return "\\f" font code(s) "\\fR"
}

function link(text, to,    page)
{
    if (to ~ /^https?:/)
        return inline(text) " <" code(to) ">"
    if (to !~ /\.[1-8]\.md(#.*)?$/)
        return "\\fI" code(text) "\\fR"
    page = text
    sub(/\(/, ".", page)
    sub(/\)$/, ".md", page)
    sub(/^.*\//, "", to)
    sub(/#.*/, "", to)
    if (page != to)
        refuse("\"" text "\" leads to " to)
    return "\\fB" code(substr(text, 1, index(text, "(") - 1)) "\\fR" substr(text, index(text, "("))
}

function inline(s,    at, out, c, in_it, to)
{
    while (at = match(s, /[`*\\[<]/)) {
        out = out prose(substr(s, 1, at - 1))
        c = substr(s, at, 1)
        s = substr(s, at + 1)
        if (c == "`") {
            in_it = until(s, "`", "code")
            s = rest
            in_it = code(in_it)
            gsub(/[^ \n]+/, "\\%&", in_it) # a word of code is not hyphenated: it begins with \%
            if (match(out, /[^ \n]+$/)) {
                in_it = substr(in_it, 3)
                if (!index(substr(out, RSTART), "\\%"))
                    out = substr(out, 1, RSTART - 1) "\\%" substr(out, RSTART)
            }
            out = out "\\fB" in_it "\\fR"
        } else if (c == "*" && s ~ /^\*/) {
            in_it = until(substr(s, 2), "**", "bold text")
            s = rest
            out = out set_in("B", in_it)
        } else if (c == "*" && s ~ /^[^ \n]/) {
            in_it = until(s, "*", "italic text")
            s = rest
            out = out set_in("I", in_it)
        } else if (c == "\\" && s ~ /^[!-\/:-@[-`{-~]/) {
            out = out prose(substr(s, 1, 1))
            s = substr(s, 2)
        } else if (c == "[" && s ~ /^[^]]*\]\([^)]*\)/) {
            in_it = until(s, "](", "a link")
            to = until(rest, ")", "a link")
            s = rest
            out = out link(in_it, to)
        } else if (c == "<" && s ~ /^[A-Za-z\/!]/) {
            refuse("HTML, or a < without a blank: \"<" substr(s, 1, 20) "\"")
        } else
            out = out prose(c)
    }
    return out prose(s)
}

# Prints lines so that roff takes none for a request.
function put(s,    n, i, line)
{
    n = split(s, line, "\n")
    for (i = 1; i <= n; i++)
        print (line[i] ~ /^[.']/ ? "\\&" : "") line[i]
}

# Prints the paragraph, item or table that ends here.
function flush(    i)
{
    if (text != "") {
        if (mark == "tag") {
            print ".TP"
            put(inline(tag))
        } else if (mark != "")
            print ".IP " mark
        else if (indent)
            print ".IP"
        else if (!first)
            print ".PP"
        put(inline(text))
        first = 0
    } else if (mark != "")
        refuse("an item without a text")
    text = mark = ""
    from = 0
    if (rows == 0)
        return
    if (rows < 3 || spec == "")
        refuse("a table wants a head, a line |---|---| and rows")
    if (!first)
        print ".PP"
    table_print()
    rows = first = 0
    spec = ""
}

# Prints the table.  If it is wider than a terminal, its wide columns wrap.
function table_print(    i, j, width, kind, row, cell)
{
    for (j = 1; j <= columns; j++)
        width += widest[j] + 3
    split(spec, kind, " ")
    for (j = 1; j <= columns; j++)
        wraps[j] = width > 72 && kind[j] == "l" && widest[j] > 24
    spec = ""
    for (j = 1; j <= columns; j++)
        spec = spec (j > 1 ? " " : "") kind[j] (wraps[j] ? "x" : "")
    print ".TS\n" heads "\n" spec "."
    for (i = 1; i <= rows; i++) {
        row = ""
        for (j = 1; i != 2 && j <= columns; j++) {
            cell = table[i, j]
            cell = cell ~ /^[.']/ && (j == 1 || wraps[j]) ? "\\&" cell : cell
            row = row (j > 1 ? "\t" : "") (wraps[j] && i > 2 ? "T{\n.ad l\n" cell "\nT}" : cell)
        }
        if (i != 2)
            print row
    }
    print ".TE"
    split("", widest)
}

function table_row(line,    n, i, cell, plain)
{
    sub(/^\| */, "", line)
    if (line !~ /\|$/)
        refuse("a row of a table ends with |")
    sub(/ *\|$/, "", line)
    gsub(/\\\|/, "\001", line)
    n = split(line, cell, / *\| */)
    if (rows && n != columns)
        refuse("a row of " n " cells in a table of " columns)
    columns = n
    rows++
    heads = rows == 1 ? "" : heads
    for (i = 1; i <= n; i++) {
        gsub(/\001/, "|", cell[i])
        if (rows == 1)
            heads = heads (i > 1 ? " " : "") "lb"
        else if (rows == 2) {
            if (cell[i] !~ /^:?---*:?$/)
                refuse("\"" cell[i] "\" is no line below a table's head")
            spec = spec (i > 1 ? " " : "") (cell[i] ~ /[^:]-*:$/ && cell[i] !~ /^:/ ? "r" : "l")
            continue
        }
        plain = cell[i]
        gsub(/<!--[^>]*-->|[`*]|\]\([^)]*\)/, "", plain)
        widest[i] = length(plain) > widest[i] ? length(plain) : widest[i]
        table[rows, i] = (cell[i] ~ /^[_=]$/ ? "\\&" : "") inline(cell[i])
    }
}

{
    sub(/\r$/, "")
}
fence {
    if ($0 ~ /^```/) {
        print ".EE"
        fence = 0
    } else if (synopsis) {
        line = code($0)
        # Types are bold, names of arguments italic.
        while (match(line, /[ *][a-z_0-9]+(\[[0-9]*\])?[,)]/) && substr(line, RSTART, RLENGTH) !~ /void\)/)
            line = substr(line, 1, RSTART) "\001" substr(line, RSTART + 1, RLENGTH - 2) "\002" substr(line, RSTART + RLENGTH - 1)
        gsub(/\001/, "\\fI", line)
        gsub(/\002/, "\\fB", line)
        print (line == "" ? "" : "\\fB" line "\\fR")
    } else
        print ($0 ~ /^\./ ? "\\&" : "") code($0)
    next
}
{
    while (match($0, / *<!--[^>]*-->/)) {
        $0 = substr($0, 1, RSTART - 1) substr($0, RSTART + RLENGTH)
        if ($0 == "")
            next
    }
}
FNR == 1 {
    if ($0 !~ /^# [a-z-]+\([1-8]\) - ./)
        refuse("begins with # NAME(SECTION) - what it is")
    name = substr($2, 1, length($2) - 3)
    section = substr($2, length($2) - 1, 1)
    printf "'\\\" t\n.TH %s %d \"\" \"moetune%s\" \"%s\"\n", code(toupper(name)), section, (version == "" ? "" : " " version),
        (section == 3 ? "Library" : section == 1 ? "User commands" : "Miscellaneous")
    print ".SH NAME"
    put(code(name) " \\- " inline(substr($0, length($1 $2) + 5)))
    first = 1
    next
}
/^```/ {
    flush()
    indent = 0
    if (!first)
        print ".PP"
    print ".EX"
    fence = FNR
    first = 0
    next
}
/^##+ / {
    flush()
    if ($1 !~ /^###?$/)
        refuse("headings are ## and ###")
    heading = substr($0, length($1) + 2)
    synopsis = $1 == "##" ? heading == "Synopsis" : synopsis
    print ($1 == "##" ? ".SH " : ".SS ") inline($1 == "##" ? toupper(heading) : heading)
    first = 1
    indent = 0
    next
}
/^ *$/ {
    flush()
    next
}
/^\|/ {
    if (text != "")
        refuse_here("an empty line belongs before a table")
    indent = 0
    table_row($0)
    next
}
rows {
    refuse("an empty line belongs behind a table")
}
/^- / || /^[0-9]+\. / {
    if (text != "" && !indent)
        refuse_here("an empty line belongs before a list")
    flush()
    from = FNR
    indent = length($1) + 1
    text = substr($0, indent + 1)
    mark = $1 == "-" ? "\\(bu 2" : $1 " " indent
    if (text ~ /\\$/) {
        tag = substr(text, 1, length(text) - 1)
        text = ""
        mark = "tag"
    }
    next
}
/^#/ || /^(>|\+ |\* |===|---|~~~|\*\*\*|__|[0-9]+\))/ || /^ +([-+*>]|[0-9]+\.) / || /^!\[/ || /[^\\]\\$/ {
    refuse_here("not known here: " $0)
}
{
    match($0, /^ */)
    if (RLENGTH == 0 && text == "" && mark == "")
        indent = 0
    if (RLENGTH != indent)
        refuse_here("is indented by " RLENGTH " blanks, not by " indent)
    if (!from)
        from = FNR
    text = text (text == "" ? "" : "\n") substr($0, indent + 1)
}
END {
    if (failed)
        exit 1
    if (!NR)
        refuse("is empty")
    if (fence)
        refuse("code that began in line " fence " does not end")
    flush()
}
