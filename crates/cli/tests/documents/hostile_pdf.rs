//! A PDF that was made to do harm ends the process that reads it, and nothing else.

use std::io::Write as _;

use ghostlight::retrieval::readers::{PdfReader, ReaderError, Readers, SourceFile};

/// A PDF with these objects, from 1, of which the first is its root.
fn pdf(objects: &[String], trailer: &str) -> Vec<u8> {
    let mut file = b"%PDF-1.4\n".to_vec();
    let mut places = Vec::new();
    for (place, object) in objects.iter().enumerate() {
        places.push(file.len());
        write!(file, "{} 0 obj\n{object}\nendobj\n", place + 1).unwrap();
    }
    let table = file.len();
    write!(file, "xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).unwrap();
    for place in places {
        writeln!(file, "{place:010} 00000 n ").unwrap();
    }
    let size = objects.len() + 1;
    write!(
        file,
        "trailer\n<< /Size {size} /Root 1 0 R {trailer} >>\nstartxref\n{table}\n%%EOF\n"
    )
    .unwrap();
    file
}

/// A page that draws this, and can draw the form `X`, which draws that.
pub(crate) fn page(contents: &str, form: &str) -> Vec<u8> {
    pdf(&objects(contents, form), "")
}

fn objects(contents: &str, form: &str) -> Vec<String> {
    let stream = |dictionary: &str, said: &str| {
        format!(
            "<< {dictionary} /Length {} >>\nstream\n{said}\nendstream",
            said.len()
        )
    };
    vec![
        String::from("<< /Type /Catalog /Pages 2 0 R >>"),
        String::from("<< /Type /Pages /Kids [3 0 R] /Count 1 >>"),
        String::from(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents 4 0 R \
             /Resources << /Font << /F 5 0 R >> /XObject << /X 6 0 R >> >> >>",
        ),
        stream("", contents),
        String::from("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"),
        stream("/Type /XObject /Subtype /Form /BBox [0 0 9 9]", form),
    ]
}

async fn read(bytes: Vec<u8>) -> Result<String, ReaderError> {
    let reader = PdfReader::new(env!("CARGO_BIN_EXE_ghostlight"), ["docs", "read-pdf"]);
    let read = Readers::none()
        .with(reader)
        .read(SourceFile::new("a.pdf", bytes))
        .await;
    read.map(|document| document.text)
}

#[tokio::test]
async fn a_drawing_that_contains_itself_is_an_error_of_its_file() {
    let fine = read(page(
        "BT /F 12 Tf 10 100 Td (Parcels come by noon) Tj ET /X Do",
        "",
    ))
    .await
    .unwrap();
    assert!(fine.contains("Parcels come by noon"), "{fine:?}");
    // Without the process of its own this overflows the stack, and ends everything.
    let endless = read(page("/X Do", "/X Do")).await;
    assert!(
        matches!(endless, Err(ReaderError::Malformed(_))),
        "{endless:?}"
    );
    let damaged = read(page("BT (x) Tj ET", "")[..300].to_vec()).await;
    assert!(
        matches!(damaged, Err(ReaderError::Malformed(_))),
        "{damaged:?}"
    );
    // Its password is none that is known.
    let lock = "<< /Filter /Standard /V 1 /R 2 /P -4 /O (aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa) \
                /U (bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb) >>";
    let mut objects = objects("BT /F 12 Tf 10 100 Td (secret) Tj ET", "");
    objects.push(String::from(lock));
    let encrypted = read(pdf(&objects, "/Encrypt 7 0 R /ID [(a) (a)]")).await;
    assert_eq!(encrypted, Err(ReaderError::Encrypted));
    // A picture of a page is no text, and saying nothing would look like success.
    let scan = read(page("", "")).await;
    assert_eq!(scan, Err(ReaderError::NoText));
}
