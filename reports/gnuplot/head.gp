# What every script begins with, after its format, name and page (plots.c).  Text that begins with ~~ is what a page
# shows where the pointer rests; f(v, end) is an interval's end, or the value itself where there is none.
reset
set encoding utf8
set datafile missing
points = 12
# The terminal's name keeps the ids of several pictures in one page apart.
svg(size) = "set terminal svg noenhanced dynamic background '#ffffff' ".size
wide_svg = svg("size 960,540 font 'sans-serif,15' name name")
narrow_svg = svg("size 400,600 font 'sans-serif,14' name name.'_narrow'")
if (format eq 'svg' && !page) { eval svg("size 480,400 font 'sans-serif,12' name name") }
if (format eq 'svg' && page) { points = 14; eval svg("size 420,360 font 'sans-serif,14' name name") }
if (format eq 'png') { points = 9; set terminal pngcairo noenhanced size 1200,1000 font 'sans,9' fontscale 2.5 linewidth 2.5 pointscale 2.5 }
if (format eq 'pdf') { points = 8; set terminal pdfcairo noenhanced size 12cm,10cm font 'sans,8' }
if (format eq 'txt') { set terminal dumb mono noenhanced size 79,30 }
top = page ? 0.91 : 0.82
ends(f,low,high) = sprintf(f,low) eq sprintf(f,high) ? '' : ' ('.sprintf(f,low).' to '.sprintf(f,high).')'
hover(text) = page ? '~~'.text : ''
small = sprintf(',%g', 0.9*points)
large = sprintf(',%g', 1.2*points)
# Okabe and Ito's colours, told apart by colour-blind readers and on white as on black; the marks say the same once more.
set linetype 1 lc rgb '#0072B2' pt 7
set linetype 2 lc rgb '#D55E00' pt 5
set linetype 3 lc rgb '#009E73' pt 9
set linetype 4 lc rgb '#E69F00' pt 11
set linetype 5 lc rgb '#56B4E9' pt 13
set linetype 6 lc rgb '#CC79A7' pt 15
set linetype 7 lc rgb '#0072B2' pt 8
set linetype 8 lc rgb '#888888' pt 6
# Line types 11 to 17 are those of plans: the default plan, five others, and all the rest.  Black is the table's.
array of_plan[7] = ['#D55E00', '#0072B2', '#E69F00', '#009E73', '#CC79A7', '#56B4E9', '#888888']
do for [i=1:7] { set linetype 10+i lc rgb of_plan[i] }
set linetype 18 lc rgb 'black'
set pointsize 0.7
set style data points
set key below horizontal Left reverse samplen 1 font small
# It takes letters for wider than they are.
if (format eq 'svg') { set key width -1 }
set tmargin at screen top
set grid lc rgb '#888888' lw 0.5 dt 3
set tics nomirror
set border 3
f(value, end) = end == end ? end : value
