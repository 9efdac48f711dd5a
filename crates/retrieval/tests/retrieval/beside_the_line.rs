//! What stands beside its line, and equations: read in one line, with signs by which their meaning stays.

use ghostlight_retrieval::{
    html::{Detail, WebPage},
    readers::{Readers, SourceFile},
};

use crate::readers_give_text::docx;

async fn read(name: &str, bytes: impl Into<Vec<u8>>) -> String {
    let read = Readers::default().read(SourceFile::new(name, bytes)).await;
    read.unwrap().text.trim_end().to_owned()
}

/// A run that is aligned so, with this text.
fn run(aligned: &str, text: &str) -> String {
    let aligned = match aligned {
        "" => String::new(),
        aligned => format!("<w:vertAlign w:val=\"{aligned}\"/>"),
    };
    format!("<w:r><w:rPr>{aligned}</w:rPr><w:t xml:space=\"preserve\">{text}</w:t></w:r>")
}

#[tokio::test]
async fn a_power_and_an_index_of_docx_are_no_digits_of_the_number_before_them() {
    let up = |text: &str| run("superscript", text);
    let down = |text: &str| run("subscript", text);
    let plain = |text: &str| run("", text);
    for (runs, text) in [
        (vec![plain("10"), up("5"), plain(" bar")], "10⁵ bar"),
        (vec![plain("10"), up("-"), up("12")], "10⁻¹²"),
        (vec![plain("CO"), down("2"), plain(" and x"), up("n"), up("+1")], "CO₂ and x^(n+1)"),
        (vec![plain("a"), down("i"), up("2")], "a_i²"),
        (vec![plain("the 3"), up("rd"), plain(" of May")], "the 3rd of May"),
        (vec![plain("Name"), up("®")], "Name®"),
        (vec![plain("x"), run("baseline", "2")], "x2"),
        (
            vec![plain("10"), "<w:r><w:rPr><w:vertAlign w:val=\"superscript\"/></w:rPr><w:t>5</w:t><w:br/><w:t>6</w:t></w:r>".to_owned()],
            "10⁵\n⁶",
        ),
    ] {
        let said = read("a.docx", docx(&format!("<w:p>{}</w:p>", runs.concat()))).await;
        assert_eq!(said, text);
    }
    // The mark of a note is its own element, and a note stands behind its paragraph.
    let reference = "<w:r><w:rPr><w:vertAlign w:val=\"superscript\"/></w:rPr><w:footnoteReference w:id=\"2\"/></w:r>";
    let body = format!("<w:p>{}{reference}{}</w:p>", plain("claim"), plain("."));
    assert_eq!(read("a.docx", docx(&body)).await, "claim.");
}

#[tokio::test]
async fn a_power_and_an_index_of_a_page_are_no_digits_of_the_number_before_them() {
    for (page, text) in [
        (
            "<p>10<sup>5</sup> bar and CO<sub>2</sub>",
            "10⁵ bar and CO₂",
        ),
        ("10<sup>&minus;6</sup>&nbsp;m", "10⁻⁶ m"),
        ("x<sup><i>n</i> + 1</sup>", "x^(n + 1)"),
        ("e<sup>x<sup>2</sup></sup>", "e^(x²)"),
        ("m <sup> 2 </sup> of", "m ² of"),
        (
            "10<span style='font-size: 8px; vertical-align: super'>5</span>",
            "10⁵",
        ),
        ("<p>the 21<sup>st</sup> century", "the 21st century"),
        // A reference stays one that can be read.
        (
            "claim<sup>[1]</sup>, more<sup><a href='#n2'>2</a></sup>",
            "claim[1], more²",
        ),
        (
            "claim<sup>*</sup> of Name<sup>&reg;</sup>",
            "claim* of Name®",
        ),
        // What is not ended, or ends with its paragraph.
        ("<p>10<sup>5<p>7", "10⁵\n\n7"),
        ("<ul><li>10<sup>5<li>7</ul>", "- 10⁵\n- 7"),
        ("10<sup><p>a</p><p>b</p></sup>", "10\n\na\n\nb"),
        ("10<sup hidden>5</sup>7", "107"),
        ("10<sup></sup>7", "107"),
        ("<pre>10<sup>5</sup></pre>", "```\n10⁵\n```"),
    ] {
        assert_eq!(read("a.html", page).await, text, "{page}");
    }
    for (page, text) in [
        ("a<sup><a href='#n1'>1</a></sup>", "a[1](#n1)"),
        ("a<a href='#n1'><sup>1</sup></a>", "a[¹](#n1)"),
        ("a<sup><a href='#n1'>é</sup>b</a>c", "a[é](#n1)bc"),
    ] {
        let page = WebPage::read(page, false, Detail::Links);
        assert_eq!(page.text.trim_end(), text);
    }
}

#[tokio::test]
async fn an_equation_of_docx_keeps_its_parts_apart() {
    let said = |text: &str| format!("<m:r><m:t>{text}</m:t></m:r>");
    let of = |name: &str, text: &str| format!("<m:{name}>{}</m:{name}>", said(text));
    let half = format!("<m:f>{}{}</m:f>", of("num", "1"), of("den", "2"));
    let row = |cells: [&str; 2]| format!("<m:mr>{}{}</m:mr>", of("e", cells[0]), of("e", cells[1]));
    for (equation, text) in [
        (format!("{}{half}", said("3")), "3 1/2"),
        (format!("{half}{}", said("x")), "1/2 x"),
        (
            format!(
                "<m:sSup>{}{}</m:sSup>{}",
                of("e", "10"),
                of("sup", "5"),
                said("7")
            ),
            "10^5 7",
        ),
        (
            format!("<m:m>{}{}</m:m>", row(["1", "0"]), row(["0", "1"])),
            "1, 0; 0, 1",
        ),
        (
            format!("<m:eqArr>{}{}</m:eqArr>", of("e", "x=1"), of("e", "y=2")),
            "x=1; y=2",
        ),
        (
            format!("<m:func>{}{}</m:func>", of("fName", "sin"), of("e", "x")),
            "sin x",
        ),
        (
            format!(
                "<m:func><m:fName><m:limLow>{}{}</m:limLow></m:fName>{}</m:func>",
                of("e", "lim"),
                of("lim", "n→∞"),
                of("e", "a")
            ),
            "lim_(n→∞)a",
        ),
        (
            format!(
                "<m:acc><m:accPr><m:chr m:val=\"\u{303}\"/></m:accPr>{}</m:acc>",
                of("e", "x")
            ),
            "x\u{303}",
        ),
        (
            format!(
                "<m:d><m:e><m:f><m:fPr><m:type m:val=\"noBar\"/></m:fPr>{}{}</m:f></m:e></m:d>",
                of("num", "n"),
                of("den", "k")
            ),
            "(n¦k)",
        ),
    ] {
        let body = format!("<w:p><m:oMath>{equation}</m:oMath></w:p>");
        assert_eq!(read("a.docx", docx(&body)).await, text, "{equation}");
    }
}

#[tokio::test]
async fn an_equation_of_a_page_is_read_as_it_would_be_typed() {
    for (equation, text) in [
        ("<msup><mn>10</mn><mn>5</mn></msup>", "10^5"),
        (
            "<mi>E</mi><mo>=</mo><mi>m</mi>\n <msup> <mi>c</mi> <mn>2</mn> </msup>",
            "E=mc^2",
        ),
        (
            "<msup><mi>x</mi><mrow><mi>n</mi><mo>+</mo><mn>1</mn></mrow></msup>",
            "x^(n+1)",
        ),
        (
            "<msub><mi>a</mi><mi>i</mi></msub><msubsup><mi>b</mi><mi>j</mi><mn>2</mn></msubsup>",
            "a_i b_j^2",
        ),
        (
            "<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></mfrac>",
            "(a+b)/2",
        ),
        ("<mn>3</mn><mfrac><mn>1</mn><mn>2</mn></mfrac>", "3 1/2"),
        (
            "<mfrac linethickness='0'><mi>n</mi><mi>k</mi></mfrac>",
            "n¦k",
        ),
        (
            "<msqrt><mn>2</mn></msqrt><mroot><mi>x</mi><mn>3</mn></mroot>",
            "√2 3√x",
        ),
        ("<msqrt><mi>a</mi><mo>+</mo><mi>b</mi></msqrt>", "√(a+b)"),
        (
            "<munderover><mo>&sum;</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover><mi>i</mi>",
            "∑_(i=1)^n i",
        ),
        ("<mi>sin</mi><mo>&ApplyFunction;</mo><mi>x</mi>", "sin x"),
        ("<mn>2</mn><mo>&InvisibleTimes;</mo><mi>x</mi>", "2·x"),
        ("<mn>2</mn><mn>3</mn>", "2 3"),
        ("<mfenced><mi>a</mi><mi>b</mi></mfenced>", "(a,b)"),
        (
            "<mo>(</mo><mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>0</mn></mtd></mtr><mtr><mtd><mn>0</mn></mtd><mtd><mn>1</mn></mtd></mtr></mtable><mo>)</mo>",
            "(1, 0; 0, 1)",
        ),
        (
            "<mi>x</mi><mtext>&nbsp;if&nbsp;</mtext><mi>y</mi>",
            "x if y",
        ),
        (
            "<mi>x</mi><mphantom><mi>X</mi></mphantom><mspace width='1em'/><mo>&lt;</mo><mn>1</mn>",
            "x<1",
        ),
        (
            "<mmultiscripts><mi>C</mi><none/><none/><mprescripts/><mn>6</mn><mn>12</mn></mmultiscripts>",
            "C_6^(12)",
        ),
        (
            "<mtext>a <b>bold</b> <span>word</span></mtext>",
            "a bold word",
        ),
        // What is not said for machines alone.
        (
            "<semantics><mi>x</mi><annotation-xml encoding='MathML-Content'><ci>X</ci></annotation-xml></semantics>",
            "x",
        ),
        (
            "<mi>y</mi><semantics><mi>x</mi><annotation encoding='StarMath 5.0'>X</annotation></semantics>",
            "yx",
        ),
    ] {
        let page = format!("<p>so <math display='inline'>{equation}</math>.</p>");
        assert_eq!(
            read("a.html", page).await,
            format!("so {text}."),
            "{equation}"
        );
    }
}

#[tokio::test]
async fn an_equation_that_a_page_has_in_tex_is_read_in_tex() {
    let tex = |tex: &str| {
        format!(
            "<math><semantics><mrow><mi>x</mi></mrow><annotation encoding='application/x-tex'>{tex}</annotation></semantics></math>"
        )
    };
    for (page, text) in [
        (
            format!("a {} b", tex(" \\frac{1}{2} \n x ")),
            "a \\frac{1}{2} x b",
        ),
        (tex("{\\displaystyle E=mc^{2}}"), "E=mc^{2}"),
        (tex("  "), "x"),
        (
            format!(
                "<span class='katex'><span class='katex-mathml'>{}</span><span class='katex-html' aria-hidden='true'>x2</span></span>!",
                tex("x^2")
            ),
            "x^2!",
        ),
        // Beside what is no equation it is nothing.
        (
            "<annotation encoding='application/x-tex'>X</annotation>a".to_owned(),
            "a",
        ),
    ] {
        assert_eq!(read("a.html", &*page).await, text, "{page}");
    }
}

#[tokio::test]
async fn an_equation_that_is_not_ended_takes_no_text_with_it() {
    for (page, text) in [
        ("<div><math><mi>x<p>rest</p></div>", "x\n\nrest"),
        ("<div><math><mi>x</mi><span>rest</span></div>", "xrest"),
        ("<p>a <math><mi>x</p><p>rest</p>", "a x\n\nrest"),
        ("<math/>rest", "rest"),
        ("<math hidden><mi>x</mi></math>rest", "rest"),
        (
            "<p>a<math display='block'><mi>x</mi></math>b",
            "a\n\nx\n\nb",
        ),
        ("<td><math><mi>x</mi><td>rest", "x rest"),
    ] {
        assert_eq!(read("a.html", page).await, text, "{page}");
    }
    let xhtml = "<html xmlns='http://www.w3.org/1999/xhtml' xmlns:m='http://www.w3.org/1998/Math/MathML'>\
        <p>a <m:math><m:msup><m:mi>x</m:mi><m:mn>2</m:mn></m:msup></m:math> b</p></html>";
    assert_eq!(read("a.xhtml", xhtml).await, "a x^2 b");
}

#[test]
fn a_hostile_equation_costs_no_more_than_its_length() {
    let begun = std::time::Instant::now();
    for (open, inside, close) in [
        ("<msup>", "", ""),
        ("<mroot>", "<mi>x</mi>", ""),
        ("<mi>", "xxxx", ""),
        ("<sup>", "*", ""),
        (
            "<math><semantics><annotation encoding='application/x-tex'>",
            "x",
            "",
        ),
        ("<math>", "<mi>x</mi>", "</math>"),
        ("<mfenced>", "<mi>x</mi>", "</mfenced>"),
        ("<mroot>", "<mi>x</mi>", "<mi>y</mi></mroot>"),
    ] {
        for begin in ["<math>", ""] {
            let page = [
                begin,
                &open.repeat(10_000),
                &inside.repeat(10_000),
                &close.repeat(10_000),
            ];
            let read = WebPage::read(&page.concat(), false, Detail::Links);
            assert!(read.text.len() < 2_000_000, "{open}");
        }
    }
    let took = begun.elapsed();
    assert!(took.as_secs() < 60, "{took:?}");
}
