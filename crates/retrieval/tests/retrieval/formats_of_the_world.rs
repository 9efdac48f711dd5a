//! Documents as other programs write them: what their authors see is what is read, and nothing else.

use std::io::{Cursor, Write as _};

use ghostlight_retrieval::{
    readers::{ReaderError, Readers, SourceFile},
    terms::terms,
};

use crate::readers_give_text::docx;

async fn read(name: &str, bytes: impl Into<Vec<u8>>) -> Result<String, ReaderError> {
    let read = Readers::default().read(SourceFile::new(name, bytes)).await;
    read.map(|document| document.text)
}

/// A paragraph with these properties and this text.
fn paragraph(properties: &str, text: &str) -> String {
    format!("<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>")
}

#[tokio::test]
async fn a_text_that_was_edited_and_moved_is_read_once_as_it_is_now() {
    for (body, text) in [
        (
            "<w:r><w:t>1</w:t><w:noBreakHyphen/><w:t>24 hours</w:t></w:r>",
            "1-24 hours",
        ),
        (
            "<w:r><w:t>bed</w:t><w:softHyphen/><w:t>room</w:t></w:r>",
            "bedroom",
        ),
        (
            "<w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom><w:moveTo><w:r><w:t>moved</w:t></w:r></w:moveTo>",
            "moved",
        ),
        (
            "<w:del><w:r><w:t>old</w:t></w:r></w:del><w:ins><w:r><w:t>new</w:t></w:r></w:ins>",
            "new",
        ),
        (
            "<w:r><mc:AlternateContent><mc:Choice><w:t>box</w:t></mc:Choice><mc:Choice><w:t>box</w:t></mc:Choice>\
             <mc:Fallback><w:t>box</w:t></mc:Fallback></mc:AlternateContent></w:r>",
            "box",
        ),
        (
            "<w:r><mc:AlternateContent><mc:Fallback><w:t>only</w:t></mc:Fallback></mc:AlternateContent></w:r>",
            "only",
        ),
        (
            "<w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r><w:r><w:rPr><w:vanish w:val=\"0\"/></w:rPr><w:t>seen</w:t></w:r>",
            "seen",
        ),
        (
            "<w:pPr><w:pPrChange><w:pPr><w:pStyle w:val=\"Heading1\"/></w:pPr></w:pPrChange></w:pPr><w:r><w:t>text</w:t></w:r>",
            "text",
        ),
        (
            "<w:fldSimple><w:r><w:t>a</w:t></w:r></w:fldSimple><w:hyperlink><w:r><w:t>b</w:t></w:r></w:hyperlink>\
             <w:smartTag><w:sdt><w:sdtContent><w:r><w:t>c</w:t><w:cr/><w:t>d</w:t><w:ptab/></w:r></w:sdtContent></w:sdt></w:smartTag>\
             <w:r><w:instrText>PAGE</w:instrText><w:delText>gone</w:delText></w:r>",
            "abc\nd\t",
        ),
    ] {
        let said = read("a.docx", docx(&format!("<w:p>{body}</w:p>")))
            .await
            .unwrap();
        assert_eq!(said, format!("{text}\n\n"), "{body}");
    }
}

#[tokio::test]
async fn a_sign_of_a_symbol_font_and_the_base_of_a_ruby_are_read() {
    let sym = |font: &str, number: &str| format!("<w:sym w:font=\"{font}\" w:char=\"{number}\"/>");
    let base = "<w:rubyBase><w:r><w:t>東京</w:t></w:r></w:rubyBase>";
    let reading = "<w:rubyPr/><w:rt><w:r><w:t>とうきょう</w:t></w:r></w:rt>";
    for (run, text) in [
        (
            format!("<w:t>5 </w:t>{}<w:t>g</w:t>", sym("Symbol", "F06D")),
            "5 μg",
        ),
        (
            format!("<w:t>x </w:t>{}<w:t> 3</w:t>", sym("Symbol", "F0A3")),
            "x ≤ 3",
        ),
        (
            format!("{}<w:t> done</w:t>", sym("Wingdings", "F0FE")),
            "☑ done",
        ),
        (
            format!("{}<w:t> open</w:t>", sym("MS Gothic", "2610")),
            "☐ open",
        ),
        // A sign that is not known leaves a trace.
        (
            format!("<w:t>1</w:t>{}<w:t>24</w:t>", sym("Own Signs", "F041")),
            "1\u{fffd}24",
        ),
        (sym("Symbol", "zz"), "\u{fffd}"),
        (
            "<w:rPr><w:rFonts w:ascii=\"Symbol\" w:hAnsi=\"Symbol\"/></w:rPr><w:t>a \u{f0ae} β</w:t>".to_owned(),
            "α → β",
        ),
        (
            format!("<w:ruby>{reading}{base}</w:ruby><w:t>都</w:t><w:tab/><w:t>x</w:t>"),
            "東京都\tx",
        ),
    ] {
        let body = format!("<w:p><w:r>{run}</w:r></w:p>");
        let said = read("a.docx", docx(&body)).await.unwrap();
        assert_eq!(said, format!("{text}\n\n"), "{run}");
    }
    for ruby in [
        "<ruby>東京<rp>(</rp><rt>とうきょう</rt><rp>)</rp></ruby>都",
        "<ruby><rb>東<rt>とう<rb>京<rt>きょう</ruby>都",
    ] {
        let said = read("a.html", format!("<p>{ruby}</p>")).await.unwrap();
        assert_eq!(said.trim_end(), "東京都", "{ruby}");
    }
}

#[tokio::test]
async fn an_equation_is_read_as_it_would_be_typed() {
    let said = |text: &str| format!("<m:r><m:t>{text}</m:t></m:r>");
    let e = |text: &str| format!("<m:e>{}</m:e>", said(text));
    let sup =
        |base: &str, to: &str| format!("<m:sSup>{}<m:sup>{}</m:sup></m:sSup>", e(base), said(to));
    for (equation, text) in [
        (sup("10", "5"), "10^5"),
        (sup("x", "n+1"), "x^(n+1)"),
        (
            format!(
                "<m:f><m:num>{}</m:num><m:den>{}</m:den></m:f>",
                said("a+b"),
                said("2")
            ),
            "(a+b)/2",
        ),
        (format!("<m:rad><m:radPr/><m:deg/>{}</m:rad>", e("2")), "√2"),
        (
            format!(
                "<m:rad><m:deg>{}</m:deg><m:e>{}</m:e></m:rad>",
                said("3"),
                sup("x", "2")
            ),
            "3√(x^2)",
        ),
        (
            format!(
                "<m:nary><m:naryPr><m:chr m:val=\"∑\"/></m:naryPr><m:sub>{}</m:sub><m:sup></m:sup>{}</m:nary>",
                said("i"),
                e("k")
            ),
            "∑_i k",
        ),
        (
            format!(
                "<m:d><m:dPr><m:begChr m:val=\"[\"/><m:endChr m:val=\"]\"/></m:dPr>{}{}</m:d>",
                e("a"),
                e("b")
            ),
            "[a|b]",
        ),
    ] {
        let body = format!(
            "<w:p><m:oMathPara><m:oMath>{equation}</m:oMath></m:oMathPara><w:r><w:t>.</w:t></w:r></w:p>"
        );
        let read = read("a.docx", docx(&body)).await.unwrap();
        assert_eq!(read, format!("{text}.\n\n"), "{equation}");
    }
}

#[tokio::test]
async fn a_note_within_an_equation_breaks_no_reader() {
    let body = "<w:p><w:r><w:t>a</w:t></w:r><m:oMath><m:f><m:num><w:footnote w:id=\"1\"></w:footnote>\
                <m:r><m:t>é</m:t></m:r></m:num></m:f></m:oMath></w:p>";
    let read = read("a.docx", docx(body)).await.unwrap();
    assert!(read.contains('é'), "{read}");
}

#[tokio::test]
async fn notes_and_text_boxes_are_paragraphs_beside_theirs() {
    let reference = |kind: &str, id: u8| format!("<w:r><w:{kind}Reference w:id=\"{id}\"/></w:r>");
    let inside = "<w:p><w:pPr><w:rPr><w:vanish/></w:rPr></w:pPr><w:r><w:t>boxed</w:t></w:r></w:p>";
    let body = [
        paragraph("<w:pStyle w:val=\"Heading1\"/>", "Title"),
        format!(
            "<w:p><w:r><w:t>claim</w:t></w:r>{}{}{}<w:r><w:t>.</w:t></w:r></w:p>",
            reference("footnote", 2),
            reference("endnote", 2),
            reference("footnote", 9),
        ),
        format!(
            "<w:p><w:r><w:t>before </w:t><w:drawing><w:txbxContent>{inside}</w:txbxContent></w:drawing><w:t>after</w:t></w:r>{}</w:p>",
            reference("footnote", 2),
        ),
    ];
    let note = |kind: &str, text: &str| {
        let own = format!("<w:p><w:r><w:{kind}Ref/></w:r><w:r><w:t>{text}</w:t></w:r></w:p>");
        let line = "<w:p><w:r><w:separator/></w:r></w:p>";
        format!(
            "<w:notes><w:{kind} w:id=\"0\">{line}</w:{kind}><w:{kind} w:id=\"2\">{own}</w:{kind}></w:notes>"
        )
    };
    let document = format!(
        "<w:document><w:body>{}</w:body></w:document>",
        body.concat()
    );
    let bytes = archive(&[
        ("word/document.xml", &document),
        ("word/footnotes.xml", &note("footnote", "at the foot")),
        ("word/endnotes.xml", &note("endnote", "at the end")),
    ]);
    assert_eq!(
        read("a.docx", bytes).await.unwrap(),
        "# Title\n\nclaim.\n\nat the foot\n\nat the end\n\nbefore \n\nboxed\n\nafter\n\n"
    );
    // Notes that cannot be read take nothing with them.
    let broken = [
        ("word/document.xml", &*document),
        ("word/footnotes.xml", "<w:p></x>"),
    ];
    let said = read("a.docx", archive(&broken)).await.unwrap();
    assert!(said.contains("claim.\n\nbefore"), "{said}");
}

/// A document of a word processor with these parts.
fn archive(parts: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, xml) in parts {
        let options = zip::write::SimpleFileOptions::default();
        archive.start_file(*name, options).unwrap();
        archive.write_all(xml.as_bytes()).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

#[tokio::test]
async fn a_heading_is_one_in_whatever_language_its_style_is_named() {
    let styles = "<w:styles xmlns:w=\"w\">\
        <w:style w:styleId=\"berschrift1\"><w:name w:val=\"heading 1\"/></w:style>\
        <w:style w:styleId=\"a3\"><w:name w:val=\"\u{432}\"/><w:pPr><w:outlineLvl w:val=\"2\"/></w:pPr></w:style>\
        <w:style w:styleId=\"Kapitel\"><w:basedOn w:val=\"berschrift1\"/></w:style>\
        <w:style w:styleId=\"loop\"><w:basedOn w:val=\"loop\"/></w:style>\
        <w:style w:styleId=\"Heading2\"><w:name w:val=\"my own\"/></w:style></w:styles>";
    let style = |id: &str| format!("<w:pStyle w:val=\"{id}\"/>");
    let level = |level: &str| format!("<w:outlineLvl w:val=\"{level}\"/>");
    let body = [
        paragraph(&style("berschrift1"), "one"),
        paragraph(&style("a3"), "three"),
        paragraph(&style("Kapitel"), "based"),
        paragraph(&style("loop"), "loop"),
        paragraph(&style("Heading2"), "own"),
        paragraph(&level("1"), "two"),
        paragraph(&[style("berschrift1"), level("9")].concat(), "none"),
    ];
    let document = format!(
        "<w:document xmlns:w=\"w\"><w:body>{}</w:body></w:document>",
        body.concat()
    );
    let bytes = archive(&[
        ("word/document.xml", &document),
        ("word/styles.xml", styles),
    ]);
    let said = read("a.docx", bytes).await.unwrap();
    assert_eq!(
        said,
        "# one\n\n### three\n\n# based\n\nloop\n\nown\n\n## two\n\nnone\n\n"
    );
    // Where the styles are missing, their names are all that there is.
    let alone = docx(&paragraph(&style("berschrift2"), "two"));
    assert_eq!(read("a.docx", alone).await.unwrap(), "## two\n\n");
}

#[tokio::test]
async fn the_parts_of_a_document_may_have_any_names() {
    let kinds = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let relation = |kind: &str, target: &str| {
        format!("<Relationship Id=\"r\" Type=\"{kinds}/{kind}\" Target=\"{target}\"/>")
    };
    let relations = |of: &str| format!("<Relationships>{of}</Relationships>");
    let body = [
        paragraph("<w:pStyle w:val=\"a1\"/>", "Title"),
        "<w:p><w:r><w:t>claim</w:t></w:r><w:r><w:footnoteReference w:id=\"2\"/></w:r></w:p>"
            .to_owned(),
    ];
    let note = "<w:footnotes><w:footnote w:id=\"2\"><w:p><w:r><w:t>note</w:t></w:r></w:p></w:footnote></w:footnotes>";
    let styles =
        "<w:styles><w:style w:styleId=\"a1\"><w:name w:val=\"heading 1\"/></w:style></w:styles>";
    let document = format!(
        "<w:document><w:body>{}</w:body></w:document>",
        body.concat()
    );
    for main in [
        "word/document2.xml",
        "/word/document2.xml",
        "./word/x/../document2.xml",
    ] {
        let whole = relations(&relation("officeDocument", main));
        let parts = relations(
            &[
                relation("styles", "styles2.xml"),
                relation("footnotes", "../notes/foot.xml"),
            ]
            .concat(),
        );
        let bytes = archive(&[
            ("_rels/.rels", &whole),
            ("word/_rels/document2.xml.rels", &parts),
            ("word/document2.xml", &document),
            ("word/styles2.xml", styles),
            ("notes/foot.xml", note),
        ]);
        assert_eq!(
            read("a.docx", bytes).await.unwrap(),
            "# Title\n\nclaim\n\nnote\n\n",
            "{main}"
        );
    }
    // What is named and is not there hides nothing that has the usual name.
    let whole = relations(&relation("officeDocument", "word/other.xml"));
    let bytes = archive(&[("_rels/.rels", &whole), ("word/document.xml", &document)]);
    assert_eq!(read("a.docx", bytes).await.unwrap(), "Title\n\nclaim\n\n");
}

#[tokio::test]
async fn text_that_a_style_hides_is_not_read() {
    let hidden = "<w:rPr><w:vanish/></w:rPr>";
    let styles = format!(
        "<w:styles xmlns:w=\"w\">\
         <w:style w:styleId=\"Secret\">{hidden}</w:style>\
         <w:style w:styleId=\"Based\"><w:basedOn w:val=\"Secret\"/></w:style>\
         <w:style w:styleId=\"Shown\"><w:basedOn w:val=\"Secret\"/><w:rPr><w:vanish w:val=\"0\"/></w:rPr></w:style>\
         <w:style w:styleId=\"Up\"><w:rPr><w:vertAlign w:val=\"superscript\"/></w:rPr></w:style></w:styles>"
    );
    let run = |style: &str, text: &str| {
        format!("<w:r><w:rPr><w:rStyle w:val=\"{style}\"/></w:rPr><w:t>{text}</w:t></w:r>")
    };
    let body = [
        paragraph("<w:pStyle w:val=\"Based\"/>", "X"),
        format!(
            "<w:p>{}{}{}{}</w:p>",
            run("Secret", "X"),
            run("Shown", "10"),
            run("Up", "5"),
            run("None", ".")
        ),
        format!(
            "<w:p><w:pPr><w:pStyle w:val=\"Secret\"/></w:pPr>{}</w:p>",
            run("Shown", "seen")
        ),
    ];
    let document = format!(
        "<w:document xmlns:w=\"w\"><w:body>{}</w:body></w:document>",
        body.concat()
    );
    let bytes = archive(&[
        ("word/document.xml", &document),
        ("word/styles.xml", &styles),
    ]);
    assert_eq!(read("a.docx", bytes).await.unwrap().trim(), "10⁵.\n\nseen");
}

#[tokio::test]
async fn a_page_in_another_encoding_is_read_as_it_says() {
    for (label, bytes, text) in [
        ("Shift_JIS", &b"\x8c\xfb\x8d\xc0"[..], "口座"),
        ("koi8-r", &b"\xd3\xde\xa3\xd4"[..], "счёт"),
        ("windows-1251", &b"\xf1\xf7\xe5\xf2"[..], "счет"),
        ("utf-16", "счет".as_bytes(), "счет"),
    ] {
        for meta in [
            format!("<!-- <meta charset=utf-7> --><meta charset=\"{label}\">"),
            format!("<META http-equiv=Content-Type content='text/html; charset={label}'>"),
            format!("<meta name=x><meta charset = {label} />"),
        ] {
            let page = [format!("<html><head>{meta}</head><p>").as_bytes(), bytes].concat();
            assert_eq!(read("a.html", page).await.unwrap(), text, "{meta}");
        }
        let xml = format!("<?xml version=\"1.0\" encoding=\"{label}\"?><p>");
        let page = [xml.as_bytes(), bytes].concat();
        assert_eq!(read("a.xhtml", page).await.unwrap(), text, "{label}");
    }
}

#[tokio::test]
async fn one_byte_that_is_no_utf_8_leaves_the_others_as_they_are() {
    let said = read(
        "a.txt",
        b"Gr\xc3\xbc\xc3\x9fe, Z\xfcrich, \xe2\x82\xac 5".to_vec(),
    )
    .await;
    assert_eq!(said.unwrap(), "Grüße, Zürich, € 5");
    let said = read("a.html", b"<p>Gr\xc3\xbc\xc3\x9fe \x93x\x94".to_vec()).await;
    assert_eq!(said.unwrap(), "Grüße “x”");
}

#[tokio::test]
async fn what_a_page_hides_is_not_read() {
    for hidden in [
        "<div hidden>X</div>",
        "<div hidden=''><div>X</div>X</div>",
        "<p hidden>X<p>",
        "<span aria-hidden='true'>X</span>",
        "<div style='color: red; DISPLAY : none !important'>X<b>X</div>",
        "<section style=\"visibility:hidden\"><h1>X</h1><pre>X</pre></section>",
        "<ul><li hidden>X<li></ul>",
        "<table><tr><td hidden>X<td></table>",
        "<p><i hidden>X</p>",
        "<pre hidden>X</pre>",
        "<template><div></template>",
        "<dialog><p>X</p></dialog>",
        "<div popover>X</div>",
        "<video src='a.mp4'>X</video><canvas>X</canvas><audio>X</audio>",
        "<datalist><option>X</datalist>",
        "<tr style='visibility: collapse'><td>X</td></tr>",
    ] {
        let said = read("a.html", format!("<p>before</p>{hidden}<p>after</p>"))
            .await
            .unwrap();
        let said = said.trim_end();
        assert!(
            !said.contains('X') && !said.contains('`'),
            "{hidden}: {said}"
        );
        assert!(
            said.starts_with("before") && said.ends_with("after"),
            "{hidden}: {said}"
        );
    }
    for shown in [
        "<div aria-hidden='false'>X</div>",
        "<div hidden='until-found'>X</div>",
        "<br hidden>X",
        "<dialog open>X</dialog>",
        "</div hidden>X",
    ] {
        assert!(
            read("a.html", shown).await.unwrap().contains('X'),
            "{shown}"
        );
    }
}

#[tokio::test]
async fn elements_of_xhtml_end_with_their_own_tag() {
    let xhtml = "<html xmlns=\"http://www.w3.org/1999/xhtml\"><head><title/><script src=\"a.js\"/><style/></head>\
        <body><div hidden=\"hidden\"/><p/><pre/><textarea/><p>seen</p><script>no()</script></body></html>";
    for (name, begin) in [
        ("a.html", ""),
        ("a.html", "<?xml version=\"1.0\"?>\n"),
        ("a.xhtml", ""),
    ] {
        let said = read(name, format!("{begin}{xhtml}")).await.unwrap();
        assert!(said.contains("seen") && !said.contains("no()"), "{said}");
    }
    // In HTML it is the beginning of a script.
    assert_eq!(
        read("a.html", "a<script/>no()</script>b").await.unwrap(),
        "ab"
    );
}

#[tokio::test]
async fn a_table_is_cut_where_its_values_are() {
    for table in [
        "Ort;Preis\nBern;1,5\nGenf;2,25\n",
        "sep=;\nOrt;Preis\nBern;1,5\nGenf;2,25\n",
        "Ort|Preis\nBern|1,5\nGenf|2,25\n",
        "Ort\tPreis\nBern\t1,5\nGenf\t2,25\n",
        "Ort,Preis\nBern,\"1,5\"\nGenf,\"2,25\"\n",
    ] {
        let said = read("a.csv", table).await.unwrap();
        assert_eq!(
            said, "Ort: Bern\nPreis: 1,5\n\nOrt: Genf\nPreis: 2,25\n\n",
            "{table}"
        );
    }
    assert_eq!(
        read("a.csv", "Name\na;b\nc\n").await.unwrap(),
        "Name: a;b\n\nName: c\n\n"
    );
}

#[test]
fn a_word_is_found_where_it_may_be_broken() {
    let whole = terms("Zahlungsbedingungen");
    for broken in [
        "Zahlungs\u{ad}bedin\u{ad}gungen",
        "Zahlungs\u{ad}\nbedingungen",
        "Zahlungs\u{ad}\r\nbedingungen",
    ] {
        assert_eq!(terms(broken), whole, "{broken:?}");
    }
}
